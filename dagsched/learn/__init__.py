"""Training of scheduling policies: evolved priorities, PPO, imitation, expert iteration. Start with ``trainer.py``."""
