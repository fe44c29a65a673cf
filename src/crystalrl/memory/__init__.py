"""Replay memories."""

from crystalrl.memory.base import ReplayMemory, load_memory
from crystalrl.memory.classical import PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory.crystal.memory import CrystalMemory
from crystalrl.memory.crystal.report import Consolidation
from crystalrl.memory.storage.checkpoint import CheckpointError

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
