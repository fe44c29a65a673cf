"""Visits counted where no grid can count them: from how near the nearest stored states are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.crystal.utility import masked_quantile
from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.memory.neighbours.exact import Near

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

NOTE = "Hardly a cell of the novelty grid is entered twice: novelty comes from the nearest neighbours (novelty='knn')."
AT_ONCE = 1 << 17


def pseudo_counts(memory: CrystalMemory, draft: Draft, near: Near) -> Tensor:
    """float32[L, W]: 1 + k·h/r, with r the distance of a successor state to the k-th nearest stored state and h its
    median in the lane.

    So many visits would lie within h of it if they lay along a path as densely as its neighbours do; a typical
    experience counts 1 + k, one on a beaten path more, one far off hardly more than itself. Where fewer than k are
    stored, they count. The successor state stands for the pair of state and action.
    """
    listed = near.exists.sum(-1)
    last = near.index.gather(2, (listed - 1).clamp_min(0)[..., None].to(torch.int64))[..., 0].to(torch.int64)
    counted = draft.occupied & (listed > 0)
    far = torch.where(counted, _apart(memory, draft, last), 0.0)
    typical = masked_quantile(far, counted, 0.5)
    ratio = torch.where(far > 0, typical / far.clamp_min(1e-30), torch.where(typical > 0, torch.inf, 1.0))
    return torch.where(counted, 1 + listed * ratio, 1.0)


def _apart(memory: CrystalMemory, draft: Draft, other: Tensor) -> Tensor:
    """float32[L, W]: distance of each successor state to the state of slot other int64[L, W], in deviations."""
    vicinity = memory.vicinity
    if vicinity is not None and bool(vicinity.held.all()):
        return vicinity.to_states(other)
    raw, successor = (memory.features(draft.fields[role]) for role in ("obs", "next_obs"))
    deviation = neighbours.moments(raw, draft.occupied)[1]
    there = raw.gather(1, other[..., None].expand_as(raw))
    far = ((there - successor) / deviation).square_().sum(-1).sqrt_()
    if vicinity is None:
        return far
    return torch.where(vicinity.held.to(far.device)[:, None], vicinity.to_states(other), far)
