"""The compiled loops that searches for neighbours use."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch

from crystalrl import backends


class Kernels(NamedTuple):
    """Compiled loops for a device; None: torch."""

    pairs: ModuleType | None
    """Over all pairs."""
    graph: ModuleType | None
    """Over neighbour lists."""


def kernels_for(device: torch.device) -> Kernels:
    if backends.compiled_for(device) is None:
        return Kernels(backends.pairs_for(device), None)
    from crystalrl.backends import numba_graph

    return Kernels(backends.pairs_for(device), numba_graph)
