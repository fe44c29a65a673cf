"""The compiled loops that searches for neighbours use."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from crystalrl import backends


class Pairs(NamedTuple):
    """Kernels over all pairs of experiences."""

    nearest: Callable[..., tuple[Tensor, Tensor]]
    tally: Callable[..., Tensor]
    votes: Callable[..., Tensor] | None


class Backend(NamedTuple):
    """Compiled loops for a device; None: torch."""

    pairs: Pairs | None
    graph: ModuleType | None
    """Over neighbour lists."""


def backend_for(device: torch.device) -> Backend:
    loops = backends.pairs_for(device)
    pairs = None if loops is None else Pairs(loops.nearest, loops.tally, getattr(loops, "votes", None))
    if backends.compiled_for(device) is None:
        return Backend(pairs, None)
    from crystalrl.backends import numba_graph

    return Backend(pairs, numba_graph)
