"""Planner: search over schedules that starts from rules and trained policies."""
