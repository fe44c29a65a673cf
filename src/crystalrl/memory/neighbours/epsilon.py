"""The two scales of an interference rule: ε, within which experiences are neighbours, and δ_r, by which rewards
differ. Each is given, or measured from the stored experiences."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.backends.protocols import Pairs
from crystalrl.dynamics import LIQUID
from crystalrl.lanes import per_lane
from crystalrl.memory.neighbours.exact import chunks, masked_median, median_spacing, moments
from crystalrl.memory.neighbours.experiences import Experiences
from crystalrl.memory.neighbours.states import StateVectors
from crystalrl.memory.neighbours.view import View, padded
from crystalrl.params import CrystalParams

SAMPLED = 512
"""Experiences from which ε is measured, evenly over the slots."""


class Scales:
    """ε and δ_r float32[L, 1] of a memory with these parameters."""

    def __init__(self, params: CrystalParams, lanes: int, device: torch.device) -> None:
        self.params, self.lanes, self.device = params, lanes, device
        self._given = {
            name: per_lane(name, value, lanes, device).to(torch.float32)
            for name in ("epsilon", "delta_r")
            if (value := getattr(params, name)) is not None
        }

    @property
    def nothing(self) -> Tensor:
        """Zeros float32[L, 1], for a memory without a rule."""
        return torch.zeros(self.lanes, 1, dtype=torch.float32, device=self.device)

    def delta_r(self, view: View) -> Tensor:
        """δ_r as given, or the standard deviation of the stored rewards."""
        if "delta_r" in self._given:
            return self._given["delta_r"]
        _, spread = moments(view.fields["reward"][..., None], view.occupied, view.block)
        return spread[:, 0].to(torch.float32)

    def epsilon(self, experiences: Experiences, pairs: Pairs | None) -> Tensor:
        """ε as given, or measured from all experiences."""
        if "epsilon" in self._given:
            return self._given["epsilon"]
        if self.params.interference == "exists":
            return nearest_spacing(experiences, pairs)
        return liquid_spacing(experiences, self.params.k, pairs)

    def epsilon_of(self, states: StateVectors, view: View, pairs: Pairs | None) -> Tensor:
        """ε as given, or measured from the same sample as in `epsilon`, in the units of `states`."""
        if "epsilon" in self._given:
            return self._given["epsilon"]
        all_count = self.params.interference == "exists"
        counting = view.occupied if all_count else view.phase == LIQUID
        step = -(-view.width.to(counting.device)[:, None] // SAMPLED)
        sampled = torch.arange(view.slots, device=counting.device) % step == 0
        first, rest = padded(counting & sampled), padded(counting & ~sampled)
        slots, real = torch.cat([first[0], rest[0]], 1), torch.cat([first[1], rest[1]], 1)
        experiences = states.experiences(slots, real)
        if all_count:
            return nearest_spacing(experiences, pairs)
        return liquid_spacing(experiences, self.params.k, pairs, step=1, stop=first[0].shape[1])


def nearest_spacing(experiences: Experiences, pairs: Pairs | None = None) -> Tensor:
    """float32[L, 1]: the ε below which (not at which) the median experience has its nearest one, by the distance of
    states plus actions."""
    given = experiences
    median = median_spacing(given.state, given.occupied, pairs, given.action, given.discrete)
    above = torch.nextafter(median, torch.full_like(median, torch.inf))
    return above.clamp_min(torch.finfo(above.dtype).tiny)


def liquid_spacing(
    experiences: Experiences,
    k: int,
    pairs: Pairs | None = None,
    *,
    step: int | None = None,
    stop: int | None = None,
    min_rows: int = 8192,
) -> Tensor:
    """float32[L, 1]: the ε within which the median liquid experience has k liquid neighbours.

    Recent experiences are dense where the learner is now, and contradictions are found there. Old contexts, of which
    few experiences are left, would make ε reach from one context into another. The median is over experiences that
    have k such neighbours at any distance; 0 if there is none. It is taken over every `step`-th slot below `stop`.

    min_rows: rows that keep a CUDA device busy with the kernel over all pairs; fewer are faster as matrix products.
    """
    lanes, slots = experiences.phase.shape
    if k >= slots:
        return torch.zeros(lanes, 1, dtype=torch.float32, device=experiences.state.device)
    step, stop = step or -(-slots // SAMPLED), stop or slots
    rows = torch.arange(0, stop, step, device=experiences.state.device)
    if pairs is not None and (not rows.is_cuda or lanes * len(rows) >= min_rows):
        given = (experiences.action, experiences.context, experiences.discrete)
        kth = pairs.nearest(experiences.state, experiences.state, experiences.liquid, rows, k, *given)[1][..., -1]
    else:
        parts = chunks(len(rows), 3 * lanes, slots, experiences.phase.device)
        every = (slice(part.start * step, min(part.stop * step, stop), step) for part in parts)
        kth = torch.cat([_kth_liquid(experiences, part, k) for part in every], -1)
    return masked_median(kth, experiences.liquid[:, rows] & torch.isfinite(kth))


def _kth_liquid(experiences: Experiences, rows: slice, k: int) -> Tensor:
    """float32[L, R]: distance to the k-th nearest liquid neighbour."""
    apart = experiences.distance(rows).masked_fill(~experiences.liquid[:, None, :], torch.inf)
    return apart.kthvalue(k, dim=-1).values
