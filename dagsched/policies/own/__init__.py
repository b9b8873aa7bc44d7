"""A user's own rule: a function, from Python or from a file."""
