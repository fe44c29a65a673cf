"""crystalrl: replay memory that crystallizes, for agents that keep what they learnt."""

from crystalrl._version import __version__
from crystalrl.memory import (
    CheckpointError,
    Consolidation,
    CrystalMemory,
    PrioritizedMemory,
    ReservoirMemory,
    UniformMemory,
    load_memory,
)
from crystalrl.params import CrystalParams
from crystalrl.suites.tasks import Sequence, Task
from crystalrl.types import Anchor, Batch, Evaluation, Memory, Transition

__all__ = [
    "Anchor",
    "Batch",
    "CheckpointError",
    "Consolidation",
    "CrystalMemory",
    "CrystalParams",
    "Evaluation",
    "Memory",
    "PrioritizedMemory",
    "ReservoirMemory",
    "Sequence",
    "Task",
    "Transition",
    "UniformMemory",
    "__version__",
    "load_memory",
]
