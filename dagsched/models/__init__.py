"""Trained models on disk: reading, checking, writing, and the index that chooses one. Nothing of training."""
