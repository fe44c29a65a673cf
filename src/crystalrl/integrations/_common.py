"""Functions shared by the integrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch

from crystalrl.memory import Consolidation, CrystalMemory
from crystalrl.types import Evaluate


def require(package: str, extra: str) -> None:
    """Raise ImportError, naming the command that installs it, if a package is missing."""
    try:
        found = find_spec(package) is not None
    except ValueError:  # sys.modules holds something that is not a module
        found = False
    if not found:
        raise ImportError(
            f"crystalrl.integrations.{extra}: wanted {package}, got none: pip install 'crystalrl[{extra}]'"
        )


def consolidate(memory: CrystalMemory, evaluate: Evaluate) -> Consolidation:
    """`memory.consolidate`, except that the time before the first call does not count: outputs cannot settle during the
    warm-up before learning starts.
    """
    if memory.params.clock == "steps" and not bool(memory.consolidations.any()):
        memory.ledger.updated.copy_(memory.time[:, None].expand_as(memory.ledger.updated))
    return memory.consolidate(evaluate)


@contextmanager
def private_randomness(device: torch.device) -> Iterator[None]:
    """A context in which random numbers are drawn without changing the state of the run's generators."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
