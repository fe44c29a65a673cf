"""Novelty N = exp(−n(s, a)/Z) (eq. nov): n counts visits to a cell of (context, state, action) in a hashed grid."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.kernels import GOLDEN
from crystalrl.memory.neighbours import moments
from crystalrl.random import mix, signed


class Grid:
    """Visit counts per lane. Invariant: counts sum to the visits so far; cells are of a width fixed at the first use.

    Coordinates are measured in standard deviations of the states stored when the first visits were counted, so a cell
    means the same for ever. The table is bounded: cells share an entry where their hashes agree.
    """

    def __init__(self, lanes: int, slots: int, size: int, width: float, device: torch.device) -> None:
        self.width = width
        entries = 1 << max(10, (2 * slots - 1).bit_length())
        self.count = torch.zeros(lanes, entries, dtype=torch.int32, device=device)
        self.centre = torch.zeros(lanes, 1, size, device=device)
        self.deviation = torch.zeros(lanes, 1, size, device=device)
        """Zero until the first visits."""

    def visit(self, vectors: Tensor, extra: Tensor, fresh: Tensor) -> Tensor:
        """Count the fresh experiences bool[L, N]; the visits int32[L, N] of every experience's cell.

        vectors float32[L, N, D]: state and box action; extra int64[L, N]: context and discrete action.
        """
        mean, deviation = moments(vectors, fresh)
        known = self.deviation > 0
        self.centre.copy_(torch.where(known, self.centre, mean))
        self.deviation.copy_(torch.where(known | ~fresh.any(1)[:, None, None], self.deviation, deviation))
        cell = self._cell(vectors, extra)
        self.count.scatter_add_(1, cell, fresh.to(torch.int32))
        return self.count.gather(1, cell)

    def _cell(self, vectors: Tensor, extra: Tensor) -> Tensor:
        scaled = (vectors - self.centre) / self.deviation.clamp_min(1e-30) / self.width
        place = scaled.floor().clamp(-(2.0**40), 2.0**40).to(torch.int64)
        code = mix(extra + signed(GOLDEN))
        for d in range(place.shape[-1]):
            code = mix(code ^ (place[..., d] + signed(GOLDEN * (d + 1))))
        return code & (self.count.shape[1] - 1)

    @property
    def nbytes(self) -> int:
        return self.count.nbytes

    def tensors(self) -> dict[str, Tensor]:
        return {"grid.count": self.count, "grid.centre": self.centre, "grid.deviation": self.deviation}

    def clear(self) -> None:
        self.count.zero_()
        self.deviation.zero_()
