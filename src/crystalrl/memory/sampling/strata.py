"""How many samples of a batch come from each stratum (in a crystal memory, each phase), and at which positions."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor


class BatchStrata:
    """The stratum of each position of a batch, for every batch size used so far.

    A stratum gets its share, but at most `limit` draws per experience that it holds (None: no limit). `refresh` changes
    the tensors in place, because a recorded CUDA graph reads them.
    """

    def __init__(
        self,
        shares: tuple[float, ...],
        split: str,
        limit: float | None = None,
        importance: Literal["phase", "memory"] = "phase",
    ) -> None:
        self._shares, self._split, self._limit, self._importance = shares, split, limit, importance
        self._by_size: dict[int, Tensor] = {}
        self.scarce = True
        """Whether one more experience in the first stratum may change a batch, so that `refresh` is needed."""

    def of(self, size: int, filled: Tensor) -> Tensor:
        """uint8[L, size], in ascending order; filled float64[L, S] counts the experiences of each stratum."""
        if size not in self._by_size:
            self._by_size[size] = self._places(size, filled)
            self.scarce = True
        return self._by_size[size]

    def refresh(self, filled: Tensor) -> None:
        """Recompute how many samples come from each stratum, after their numbers of experiences have changed."""
        for size, places in self._by_size.items():
            places.copy_(self._places(size, filled))
        enough = 0.0 if self._limit is None else max(self._by_size, default=0) / self._limit
        self.scarce = bool((filled[:, 0] <= enough).any())

    def fractions(self, filled: Tensor) -> Tensor:
        """float64[L, S]: shares of the strata in the largest batch drawn so far (before the first, in one of 256)."""
        size = max(self._by_size, default=256)
        return quotas(self._shares, self._split, size, filled, self._limit) / size

    def counts(self, strata: Tensor, filled: Tensor) -> Tensor:
        """float64[L, S]: n of the importance weights (n·p)^(−β), p the share of a draw weight in its stratum.

        phase: the experiences of the stratum, filled float64[L, S]. memory: all experiences, times the stratum's share
        of the batch, strata uint8[L, B]: then n·p = N·P, with P the share of an experience in the whole batch.
        """
        if self._importance == "phase":
            return filled
        phase = torch.arange(filled.shape[1], device=strata.device)
        return filled.sum(-1, keepdim=True) * (strata[..., None] == phase).to(torch.float64).mean(1)

    def _places(self, size: int, filled: Tensor) -> Tensor:
        upper = quotas(self._shares, self._split, size, filled, self._limit).cumsum(-1)
        place = torch.arange(size, device=upper.device)
        return (place[None, :, None] >= upper[:, None, :]).sum(-1).to(torch.uint8)


def quotas(shares: tuple[float, ...], split: str, size: int, filled: Tensor, limit: float | None = None) -> Tensor:
    """Samples of each stratum, int64[L, S], that sum to `size`; strata that hold nothing get none.

    largest_remainder: shares of the present strata, scaled to sum to one and bounded by `limit` draws per experience.
    floor: Algorithm 2, for liquid, glass and crystal: ⌊.70B⌋, ⌊.25B⌋, ⌈.05B⌉ and the rest to liquid; the share of an
    absent phase goes to the first present one.
    """
    present = filled > 0
    if split == "floor":
        return _floored(shares, size, present)
    wanted = torch.tensor(shares, dtype=torch.float64, device=present.device) * present
    lacking = wanted.sum(-1, keepdim=True) == 0
    wanted = torch.where(lacking, present.to(torch.float64), wanted)
    exact = wanted / wanted.sum(-1, keepdim=True).clamp_min(1e-300) * size
    if limit is not None:
        exact = _bounded(exact, filled * limit)
    whole = (exact + 1e-9).floor()
    missing = size - whole.sum(-1, keepdim=True)
    rest = (exact - whole).round(decimals=9)  # ties stay ties, whatever the rounding of the shares
    rank = rest.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return (whole + (rank < missing)).to(torch.int64)


def _bounded(exact: Tensor, bound: Tensor) -> Tensor:
    """`exact` [L, S] with the same sum, no entry above its bound: what exceeds one goes to the others, in proportion.

    If the bounds are too small for that, all are raised in proportion.
    """
    size = exact.sum(-1, keepdim=True)
    for _ in range(exact.shape[-1]):  # an entry's excess may push another over its bound
        free = torch.where(exact < bound, exact, 0.0)
        excess = (exact - bound).clamp_min(0.0).sum(-1, keepdim=True)
        exact = torch.minimum(exact, bound) + excess * free / free.sum(-1, keepdim=True).clamp_min(1e-300)
    return exact * (size / exact.sum(-1, keepdim=True).clamp_min(1e-300))


def _floored(shares: tuple[float, ...], size: int, present: Tensor) -> Tensor:
    glass, crystal = math.floor(shares[1] * size + 1e-9), math.ceil(shares[2] * size - 1e-9)
    fixed = torch.tensor([size - glass - crystal, glass, crystal], device=present.device)
    kept = fixed * present
    first = (present.cumsum(-1) == 1) & present
    return kept + first * (size - kept.sum(-1, keepdim=True))
