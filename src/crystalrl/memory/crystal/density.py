"""Visits counted where no grid can count them: from how near the nearest stored states are."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.crystal.utility import masked_quantile
from crystalrl.memory.neighbours.neighbourhood import Neighbourhood

NOTE = "Hardly a cell of the novelty grid is entered twice: novelty comes from the nearest neighbours (novelty='knn')."


def pseudo_counts(draft: Draft, nearby: Neighbourhood) -> Tensor:
    """float32[L, W]: 1 + k·h/r, with r the distance of a successor state to the k-th nearest stored state and h its
    median in the lane.

    So many visits would lie within h of it if they lay along a path as densely as its neighbours do; a typical
    experience counts 1 + k, one on a beaten path more, one far off hardly more than itself. Where fewer than k are
    stored, they count. The successor state stands for the pair of state and action.
    """
    near = nearby.near
    assert near is not None
    listed = near.exists.sum(-1)
    last = near.index.gather(2, (listed - 1).clamp_min(0)[..., None].to(torch.int64))[..., 0].to(torch.int64)
    counted = draft.occupied & (listed > 0)
    far = torch.where(counted, nearby.successor_distance(last), 0.0)
    typical = masked_quantile(far, counted, 0.5)
    ratio = torch.where(far > 0, typical / far.clamp_min(1e-30), torch.where(typical > 0, torch.inf, 1.0))
    return torch.where(counted, 1 + listed * ratio, 1.0)
