"""The order in which slots are overwritten."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY, LIQUID


def write_order(
    phase: Tensor, pinned: Tensor, unevaluated: Tensor, utility: Tensor, birth: Tensor
) -> tuple[Tensor, Tensor]:
    """Slots int64[L, N] in the order in which they may be written, and how many may, int64[L]; all arguments [L, N].

    Free slots come first, then liquid ones by utility, then liquid ones not yet evaluated by age. Glass, crystal and
    pinned slots may not be written and come last.
    """
    free = phase == EMPTY
    writable = free | ((phase == LIQUID) & ~pinned)
    rank = torch.where(free, -2.0, torch.where(unevaluated, 2.0, utility.to(torch.float64)))
    rank = torch.where(writable, rank, torch.inf)
    age = torch.where(free, torch.arange(phase.shape[1], device=free.device), birth)
    by_age = age.argsort(dim=1, stable=True)
    order = rank.gather(1, by_age).argsort(dim=1, stable=True)
    return by_age.gather(1, order), writable.sum(-1)
