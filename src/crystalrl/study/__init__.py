"""Continual-learning studies: specs, the training loop, metrics, statistics, stored results."""
