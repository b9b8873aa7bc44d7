"""Observed features of tasks, clusters and workflows: one builder for environment, training, inference and serving."""
