"""Metrics, comparison, statistics, report."""
