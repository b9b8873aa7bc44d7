"""Trained priorities and networks as policies; why they decide as they do."""
