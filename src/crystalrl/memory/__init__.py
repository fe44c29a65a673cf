"""Replay memories."""

from crystalrl.memory.checkpoint import CheckpointError
from crystalrl.memory.classical import PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory.crystal import CrystalMemory
from crystalrl.memory.replay import ReplayMemory, load_memory
from crystalrl.memory.report import Consolidation

__all__ = [
    "CheckpointError",
    "Consolidation",
    "CrystalMemory",
    "PrioritizedMemory",
    "ReplayMemory",
    "ReservoirMemory",
    "UniformMemory",
    "load_memory",
]
