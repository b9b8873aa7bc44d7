"""Priorities by hand: keys that never change, scores that do, and which tasks a rule cannot tell apart."""
