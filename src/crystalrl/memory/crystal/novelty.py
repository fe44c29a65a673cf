"""Novelty N = exp(−n(s, a)/Z) (eq. nov): n counts visits to a cell of (context, state, action) in a hashed grid."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.backends.splitmix import GOLDEN, signed
from crystalrl.random import mix

ENOUGH = 1000
"""Visits before the grid is judged."""
RAIN = 1.2
"""Up to so many times its mean, the variance of the visits to entries is that of visits to ever new cells."""


@dataclass(frozen=True)
class Visits:
    """First visits of a consolidation, to be counted when it is applied; slots beyond those drafted have none."""

    fresh: Tensor
    """bool[L, W]: whose."""
    cell: Tensor
    """int32[L, W]: where, for everything occupied."""
    centre: Tensor
    deviation: Tensor


class Grid:
    """Visit counts per lane. Invariant: counts sum to the visits so far; cells are of a width fixed at the first use.

    Coordinates are measured in standard deviations of the states stored when the first visits were counted, so a cell
    means the same for ever. The table is bounded: cells share an entry where their hashes agree. The cell of each slot
    is kept, because it never changes.
    """

    def __init__(self, lanes: int, slots: int, size: int, width: float, device: torch.device) -> None:
        self.width = width
        entries = 1 << max(10, (2 * slots - 1).bit_length())
        self.count = torch.zeros(lanes, entries, dtype=torch.int32, device=device)
        self.centre = torch.zeros(lanes, 1, size, device=device)
        self.deviation = torch.zeros(lanes, 1, size, device=device)
        """Zero until the first visits."""
        self.cell = torch.zeros(lanes, slots, dtype=torch.int32, device=device)

    def scale(self, mean: Tensor, deviation: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
        """Centre and deviation [L, 1, D] to use: as fixed, or those of the fresh [L, N] where there were none yet."""
        known = self.deviation > 0
        first = known | ~fresh.any(1)[:, None, None]
        return torch.where(known, self.centre, mean), torch.where(first, self.deviation, deviation)

    @property
    def scaled(self) -> bool:
        return bool((self.deviation > 0).all())

    def counted(self, visits: Visits) -> Tensor:
        """Visits int32[L, W] of every experience's cell, the fresh ones included; nothing is written."""
        cell = visits.cell.to(torch.int64)
        return self.count.scatter_add(1, cell, visits.fresh.to(torch.int32)).gather(1, cell)

    def useless(self, visits: Visits) -> Tensor:
        """bool[L]: whether hardly a cell has been entered twice. Visits to ever new cells fall on the entries of the
        table like rain, with a variance equal to their mean; cells entered again and again vary more. The few very full
        ones (of who stands still) count only as far as rain would go.
        """
        count = self.count.scatter_add(1, visits.cell.to(torch.int64), visits.fresh.to(torch.int32))
        entered = count.sum(-1, keepdim=True).to(torch.float64)
        rain = entered / self.count.shape[1]
        seen = torch.minimum(count.to(torch.float64), rain + 3 * rain.sqrt() + 1)
        mean = seen.mean(-1)
        return (entered[:, 0] >= ENOUGH) & (seen.square().mean(-1) - mean.square() <= RAIN * mean)

    def count_visits(self, visits: Visits, kept: Tensor) -> None:
        """Count the fresh that are still there, bool[L, W]."""
        self.centre.copy_(visits.centre)
        self.deviation.copy_(visits.deviation)
        counted = (visits.fresh & kept).to(torch.int32)
        self.count.scatter_add_(1, visits.cell.to(torch.int64), counted)
        mine = self.cell[:, : visits.cell.shape[1]]
        mine.copy_(torch.where(kept, visits.cell, mine))

    def cell_of(self, vectors: Tensor, extra: Tensor, centre: Tensor, deviation: Tensor) -> Tensor:
        """int32[L, N] of vectors float32[L, N, D] (state and box action) and extra int64[L, N] (context and action)."""
        scaled = (vectors - centre) / deviation.clamp_min(1e-30) / self.width
        place = scaled.floor().clamp(-(2.0**40), 2.0**40).to(torch.int64)
        code = mix(extra + signed(GOLDEN))
        for d in range(place.shape[-1]):
            code = mix(code ^ (place[..., d] + signed(GOLDEN * (d + 1))))
        return (code & (self.count.shape[1] - 1)).to(torch.int32)

    @property
    def nbytes(self) -> int:
        return self.count.nbytes + self.cell.nbytes

    def tensors(self) -> dict[str, Tensor]:
        named = {"count": self.count, "centre": self.centre, "deviation": self.deviation}
        return {**{f"grid.{name}": tensor for name, tensor in named.items()}, "slot.cell": self.cell}

    def clear(self) -> None:
        self.count.zero_()
        self.deviation.zero_()
