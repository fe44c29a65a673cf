"""Replay memories."""

from crystalrl.memory.checkpoint import CheckpointError
from crystalrl.memory.classical import PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory.replay import ReplayMemory, load_memory

__all__ = ["CheckpointError", "PrioritizedMemory", "ReplayMemory", "ReservoirMemory", "UniformMemory", "load_memory"]
