"""Functions shared by the integrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from crystalrl.memory import Consolidation
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.types import ArrayLike, Evaluate, Transition


class Crystallizing(Protocol):
    """The part of `CrystalMemory` that the integrations' functions use."""

    params: CrystalParams
    spec: StorageSpec
    consolidations: Tensor

    @property
    def capacity(self) -> int: ...
    def add(self, transition: Transition, *, crystallization: ArrayLike | None = None) -> Tensor: ...
    def experiences(self, phase: str | None = None) -> dict[str, Any]: ...
    def restart_clock(self) -> None: ...
    def consolidate(self, evaluate: Evaluate) -> Consolidation: ...


def consolidate(memory: Crystallizing, evaluate: Evaluate) -> Consolidation:
    """`memory.consolidate`, except that the time before the first call does not count: outputs cannot settle during the
    warm-up before learning starts.
    """
    if not bool(memory.consolidations.any()):
        memory.restart_clock()
    return memory.consolidate(evaluate)


@contextmanager
def private_randomness(device: torch.device) -> Iterator[None]:
    """A context in which random numbers are drawn without changing the state of the run's generators."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
