"""Whole schedules drawn at random around a priority; schedule generation schemes."""
