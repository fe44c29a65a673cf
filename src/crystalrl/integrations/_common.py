"""Functions shared by the integrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch import Tensor

from crystalrl.memory import Consolidation, CrystalMemory
from crystalrl.memory.storage.external import ExternalArena
from crystalrl.memory.storage.spec import StorageSpec, storage_from_json
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


def consolidate(memory: Crystallizing, evaluate: Evaluate) -> Consolidation:
    """`memory.consolidate`, except that the time before the first call does not count: outputs cannot settle during the
    warm-up before learning starts.
    """
    if not bool(memory.consolidations.any()):
        memory.restart_clock()
    return memory.consolidate(evaluate)


def packed(memory: CrystalMemory) -> dict[str, Any]:
    """A memory with an external arena, without its arena, for pickle and deepcopy."""
    return {"header": memory._header(), "tensors": {name: t.numpy() for name, t in memory.state_dict().items()}}


def unpacked(state: Mapping[str, Any], arena: ExternalArena) -> CrystalMemory:
    """The memory of `packed`, over an arena that gives the same experiences."""
    header, tensors = state["header"], {name: torch.as_tensor(value) for name, value in state["tensors"].items()}
    options: dict[str, Any] = {**storage_from_json(header["structure"]), "seed": tensors["streams.seeds"].tolist()}
    memory = CrystalMemory._restore({**options, "arena": arena}, header["params"])
    memory.load_state_dict(tensors)
    return memory


@contextmanager
def private_randomness(device: torch.device) -> Iterator[None]:
    """A context in which random numbers are drawn without changing the state of the run's generators."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
