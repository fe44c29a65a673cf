"""Novelty N = exp(−n(s, a)/Z) (eq. nov): n counts the visits to a cell of (context, state, action) in a hashed grid,
or is estimated from the distance to the nearest stored states where hardly any cell is visited twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends.splitmix import GOLDEN, signed
from crystalrl.memory.neighbours.exact import moments
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.neighbourhood import Neighbourhood
from crystalrl.memory.neighbours.view import View, padded
from crystalrl.random import mix

ENOUGH = 1000
"""Visits needed before `Grid.useless` decides."""
POISSON = 1.2
"""Counts whose variance is at most this multiple of their mean look Poisson: no cell is visited again."""
NOTE = "Hardly any cell of the novelty grid is visited twice: novelty is computed from neighbours (novelty='knn')."


@dataclass(frozen=True)
class Visits:
    """The cells of W slots, and the visits that a consolidation will count when it is applied."""

    new: Tensor
    """bool[L, W]: experiences whose visit is not counted yet."""
    cell: Tensor
    """int32[L, W]: cell of every experience."""
    centre: Tensor
    deviation: Tensor


class Grid:
    """Visit counts per lane. Invariant: counts sum to the visits so far; the scale is fixed at the first use.

    Coordinates are measured in standard deviations of the states stored when the first visits were counted, so cells
    stay fixed. The table is bounded: cells share an entry where their hashes agree. The cell of each slot is
    kept, because it never changes.
    """

    def __init__(self, lanes: int, slots: int, size: int, width: float, device: torch.device) -> None:
        self.width = width
        entries = 1 << max(10, (2 * slots - 1).bit_length())
        self.count = torch.zeros(lanes, entries, dtype=torch.int32, device=device)
        self.centre = torch.zeros(lanes, 1, size, dtype=torch.float32, device=device)
        self.deviation = torch.zeros(lanes, 1, size, dtype=torch.float32, device=device)
        """Zero until the first visits."""
        self.cell = torch.zeros(lanes, slots, dtype=torch.int32, device=device)

    def scale(self, mean: Tensor, deviation: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Centre and deviation [L, 1, D] to use: the fixed ones, or those given where there were none yet.

        new bool[L, W]: a lane without new experiences fixes nothing.
        """
        known = self.deviation > 0
        first = known | ~new.any(1)[:, None, None]
        return torch.where(known, self.centre, mean), torch.where(first, self.deviation, deviation)

    @property
    def scaled(self) -> bool:
        """Whether the scale of every lane is fixed."""
        return bool((self.deviation > 0).all())

    def counted(self, visits: Visits) -> Tensor:
        """Visits int32[L, W] to every experience's cell, the new ones included. Nothing is written."""
        cell = visits.cell.to(torch.int64)
        return self.count.scatter_add(1, cell, visits.new.to(torch.int32)).gather(1, cell)

    def useless(self, visits: Visits) -> Tensor:
        """bool[L]: whether hardly any cell has been visited twice.

        If every visit is to a new cell, the counts of the table are Poisson, with a variance equal to their mean;
        repeated visits vary more. Counts are clipped above the range of likely Poisson counts, so that a few very full
        cells (an agent that stands still) do not decide.
        """
        count = self.count.scatter_add(1, visits.cell.to(torch.int64), visits.new.to(torch.int32))
        entered = count.sum(-1, keepdim=True).to(torch.float64)
        rate = entered / self.count.shape[1]
        seen = torch.minimum(count.to(torch.float64), rate + 3 * rate.sqrt() + 1)
        mean = seen.mean(-1)
        return (entered[:, 0] >= ENOUGH) & (seen.square().mean(-1) - mean.square() <= POISSON * mean)

    def count_visits(self, visits: Visits, kept: Tensor) -> None:
        """Count the new visits of the slots that still hold the same experience, kept bool[L, W]."""
        self.centre.copy_(visits.centre)
        self.deviation.copy_(visits.deviation)
        counted = (visits.new & kept).to(torch.int32)
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


def find_visits(grid: Grid, view: View, features: Features) -> Visits:
    """The cells of all experiences; visits of the unevaluated ones are new."""
    new, centre, deviation = view.unevaluated, grid.centre, grid.deviation
    if not grid.scaled:
        vectors = features.grid_vectors(view.fields, features.seen(view)[0])
        centre, deviation = grid.scale(*moments(vectors, new, view.block), new)
    cell = grid.cell[:, : view.slots].clone()
    slots, real = padded(new)
    if not slots.shape[1]:
        return Visits(new, cell, centre, deviation)
    size = features.at_once(slots)
    for some, here in zip(slots.split(size, 1), real.split(size, 1), strict=True):
        fields = view.arena.unpack(view.arena.read(some))
        found = grid.cell_of(features.grid_vectors(fields), features.grid_codes(fields), centre, deviation)
        cell[here.nonzero()[:, 0], some[here]] = found[here]
    return Visits(new, cell, centre, deviation)


def visit_counts(
    grid: Grid,
    visits: Visits,
    nearby: Neighbourhood,
    occupied: Tensor,
    how: Literal["auto", "grid", "knn", "state_action"],
) -> tuple[Tensor, tuple[str, ...]]:
    """Visits [L, W], from the grid or from the neighbours, and remarks for the report."""
    by_cell = grid.counted(visits)
    if how in ("grid", "state_action") or nearby.near is None:
        return by_cell, ()
    useless = grid.useless(visits) | (how == "knn")
    if not bool(useless.any()):
        return by_cell, ()
    counted = torch.where(useless[:, None], pseudo_counts(nearby, occupied), by_cell)
    return counted, (NOTE,) if how == "auto" else ()


def pseudo_counts(nearby: Neighbourhood, occupied: Tensor) -> Tensor:
    """float32[L, W]: 1 + k·h/r, with r the distance of a successor state to its k-th nearest stored state and h the
    median of r in the lane.

    This would be the number of visits within h if they lay along a path as densely as the neighbours do. A typical
    experience counts 1 + k, one in a crowded region more, an isolated one hardly more than 1. Where fewer than k states
    are listed, their number replaces k. The successor state represents the pair of state and action.
    """
    assert nearby.near is not None
    near = nearby.near
    listed = near.exists.sum(-1)
    last = near.index.gather(2, (listed - 1).clamp_min(0)[..., None].to(torch.int64))[..., 0].to(torch.int64)
    counted = occupied & (listed > 0)
    far = torch.where(counted, nearby.successor_distance(last), 0.0)
    typical = masked_quantile(far, counted, 0.5)
    ratio = torch.where(far > 0, typical / far.clamp_min(1e-30), torch.where(typical > 0, torch.inf, 1.0).to(far.dtype))
    return torch.where(counted, 1 + listed * ratio, 1.0)


def masked_quantile(values: Tensor, mask: Tensor, q: float) -> Tensor:
    """float32[L, 1]: quantile of the masked values [L, N] of each lane, linearly interpolated; 0 if there are none."""
    place = q * (mask.sum(-1, keepdim=True).to(torch.float64) - 1).clamp_min(0)
    low, high = place.floor().to(torch.int64), place.ceil().to(torch.int64)
    below, above = _order_statistics(values, mask, low, high)
    value = below + (above - below).nan_to_num(0.0) * (place - low).to(values.dtype)
    return torch.where(mask.any(-1, keepdim=True), value, 0.0)


def _order_statistics(values: Tensor, mask: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The masked values [L, 1] of ranks low and high int64[L, 1] in each lane; infinite where there are none. A single
    lane on CPU selects them, which takes a quarter of the time of sorting."""
    if values.is_cuda or len(values) > 1:
        ordered = values.masked_fill(~mask, torch.inf).sort(-1).values
        return ordered.gather(1, low), ordered.gather(1, high)
    given = values[mask]
    if not len(given):
        return torch.full_like(values[:, :1], torch.inf), torch.full_like(values[:, :1], torch.inf)
    ranks = [int(low), int(high)]
    below, above = np.partition(given.numpy(), ranks)[ranks].tolist()
    return values.new_tensor([[below]]), values.new_tensor([[above]])
