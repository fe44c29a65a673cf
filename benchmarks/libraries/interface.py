"""What a library must offer to be compared, and the examples that do the training."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from benchmarks.harness.results import ROOT
from benchmarks.harness.timing import Step
from crystalrl import CrystalParams

SLOTS, BATCH = 20_000, 256
"""Of timed gradient steps."""
Buffer = CrystalParams | str | None
"""Parameters of a crystal memory; the name of another buffer of the library; None: its standard buffer."""


@dataclass(frozen=True)
class Library:
    stock: dict[str, str | None]
    """Its own buffers to compare with, by the names in tables."""
    packages: dict[str, str]
    """Versions."""
    networks: str
    """Hidden layers of the agents whose gradient steps are timed."""
    lengths: dict[str, int]
    """Environment steps of a run, by algorithm and task such as "DQN, CartPole-v1"."""
    train: Callable[[str, Any, int, int], list[float]]
    """Returns of the episodes of a run, given algorithm and task, buffer, seed and environment steps."""
    stepper: Callable[[str, Any], Step]
    """A gradient step of an algorithm such as "DQN" on a full buffer."""
    without_anchors: bool = True
    """Whether gradient steps with a crystal memory are also timed without anchors."""

    @property
    def algorithms(self) -> list[str]:
        return [name.split(", ")[0] for name in self.lengths]


def library(name: str) -> Library:
    """Imported when it is needed, since each is optional."""
    found: Library = import_module(f"benchmarks.libraries.{name}").INTERFACE
    return found


def example(name: str) -> ModuleType:
    """A script of `examples/` as a module. Scripts that it imports must be loaded before."""
    if name not in sys.modules:
        spec = spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]
