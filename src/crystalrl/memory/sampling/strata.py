"""How many of a batch come from each phase."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def quotas(shares: tuple[float, float, float], split: str, size: int, present: Tensor) -> Tensor:
    """int64[L, 3] that sums to `size`: places for liquid, glass, crystal; a phase not present bool[L, 3] gets none.

    largest_remainder: shares of the present phases, scaled to sum to one. floor: Algorithm 2, ⌊.70B⌋, ⌊.25B⌋, ⌈.05B⌉
    and the rest to liquid; what an absent phase would get goes to the first present one.
    """
    if split == "floor":
        return _floored(shares, size, present)
    wanted = torch.tensor(shares, dtype=torch.float64, device=present.device) * present
    lacking = wanted.sum(-1, keepdim=True) == 0
    wanted = torch.where(lacking, present.to(torch.float64), wanted)
    exact = wanted / wanted.sum(-1, keepdim=True).clamp_min(1e-300) * size
    whole = (exact + 1e-9).floor()
    missing = size - whole.sum(-1, keepdim=True)
    rank = (exact - whole).argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return (whole + (rank < missing)).to(torch.int64)


def _floored(shares: tuple[float, float, float], size: int, present: Tensor) -> Tensor:
    glass, crystal = math.floor(shares[1] * size + 1e-9), math.ceil(shares[2] * size - 1e-9)
    fixed = torch.tensor([size - glass - crystal, glass, crystal], device=present.device)
    kept = fixed * present
    first = (present.cumsum(-1) == 1) & present
    return kept + first * (size - kept.sum(-1, keepdim=True))
