"""crystalrl: replay memory that crystallizes, for agents that keep what they learnt.

The public names are imported at first use, so that a process which only steps environments does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from crystalrl._version import __version__

if TYPE_CHECKING:
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

_ELSEWHERE = {
    **dict.fromkeys(("Anchor", "Batch", "Evaluation", "Memory", "Transition"), "crystalrl.types"),
    **dict.fromkeys(("Sequence", "Task"), "crystalrl.suites.tasks"),
    "CrystalParams": "crystalrl.params",
}
"""Name → its module, if that is not `crystalrl.memory`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'crystalrl' has no attribute {name!r}")
    found: object = getattr(import_module(_ELSEWHERE.get(name, "crystalrl.memory")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
