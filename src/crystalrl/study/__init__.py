"""Continual studies: specs, the loop, metrics, statistics, stored results."""
