"""Agents that learn many lanes at once; they know batches, weights and anchors, and nothing of memories."""

from crystalrl.agents.dqn import DQN, DQNParams, Update

__all__ = ["DQN", "DQNParams", "Update"]
