"""Checks of a sum tree's state, live or read from a file."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.memory.storage.checks import Named, Problems, between

OLDEST = 1 << 30
"""Generations are below this; adding to them cannot overflow."""


def tree_problems(state: Named, occupied: Tensor | None = None) -> Problems:
    """Draw weights or generations [L, W] that are impossible; occupied bool[L, W]: the slots that can be drawn."""
    weight, generation = state["slot.weight"], state["slot.claims"]
    yield from between("draw weights", weight, 0, torch.finfo(torch.float32).max)
    if occupied is not None and not torch.equal(weight > 0, occupied):
        yield "draw weights: wanted positive ones for occupied slots only, got others: drawable and occupied differ"
    yield from between("generations", generation, 0, OLDEST)
