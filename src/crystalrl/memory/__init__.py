"""Replay memories."""

from crystalrl.memory.base import ReplayMemory, load_memory
from crystalrl.memory.crystal.memory import CrystalMemory
from crystalrl.memory.crystal.report import Consolidation
from crystalrl.memory.prioritized import PrioritizedMemory
from crystalrl.memory.reservoir import ReservoirMemory
from crystalrl.memory.storage.header import CheckpointError
from crystalrl.memory.uniform import UniformMemory

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
