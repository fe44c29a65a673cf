"""How many samples of a batch come from each phase, and at which positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class BatchStrata:
    """The stratum of each position of a batch, for every batch size used so far.

    `refresh` changes the tensors in place, because a recorded CUDA graph reads them.
    """

    def __init__(self, shares: tuple[float, float, float], split: str, importance: str = "phase") -> None:
        self._shares, self._split, self._importance = shares, split, importance
        self._by_size: dict[int, Tensor] = {}

    def of(self, size: int, filled: Tensor) -> Tensor:
        """uint8[L, size], liquid first; filled float64[L, 3] counts the experiences of each phase."""
        if size not in self._by_size:
            self._by_size[size] = self._places(size, filled)
        return self._by_size[size]

    def refresh(self, filled: Tensor) -> None:
        """Recompute which phases take part, after a phase may have become empty or non-empty."""
        for size, places in self._by_size.items():
            places.copy_(self._places(size, filled))

    def counts(self, strata: Tensor, filled: Tensor) -> Tensor:
        """float64[L, 3]: n of the importance weights (n·p)^(−β), p the share of a draw weight in its phase.

        phase: the experiences of the phase, filled float64[L, 3]. memory: all of them, times the phase's share of the
        batch, strata uint8[L, B]: then n·p = N·P, with P the share of an experience in the whole batch.
        """
        if self._importance == "phase":
            return filled
        phase = torch.arange(filled.shape[1], device=strata.device)
        return filled.sum(-1, keepdim=True) * (strata[..., None] == phase).to(torch.float64).mean(1)

    def _places(self, size: int, filled: Tensor) -> Tensor:
        upper = quotas(self._shares, self._split, size, filled > 0).cumsum(-1)
        place = torch.arange(size, device=upper.device)
        return (place[None, :, None] >= upper[:, None, :]).sum(-1).to(torch.uint8)


def quotas(shares: tuple[float, float, float], split: str, size: int, present: Tensor) -> Tensor:
    """Samples of liquid, glass, crystal, int64[L, 3], that sum to `size`; only phases `present` bool[L, 3] get any.

    largest_remainder: shares of the present phases, scaled to sum to one. floor: Algorithm 2, ⌊.70B⌋, ⌊.25B⌋, ⌈.05B⌉
    and the rest to liquid; the share of an absent phase goes to the first present one.
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
