"""Training of scheduling policies: evolved priorities, PPO, imitation; checkpoints."""
