"""Steps of the same environment shortly before and after: mostly the nearest there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crystalrl.memory.draft import Draft, padded
from crystalrl.memory.states import States

BEFORE_AND_AFTER = 6
"""So many steps before and after an experience are offered to its lists."""


def steps_nearby(draft: Draft, new: Tensor, envs: int) -> Tensor:
    """int32[L, W, T]: new experiences that came shortly before and after each new one, −1 for none."""
    reach = torch.arange(-BEFORE_AND_AFTER, BEFORE_AND_AFTER + 1, device=new.device)
    reach = reach[reach != 0] * envs
    nearby = torch.full((*new.shape, len(reach)), -1, dtype=torch.int32, device=new.device)
    slots, real = padded(new)
    age = draft.birth.gather(1, slots).masked_fill(~real, torch.iinfo(torch.int64).max)
    slots = slots.gather(1, age.argsort(dim=1))
    count = real.sum(-1)
    place = torch.arange(slots.shape[1], device=new.device)[:, None] + reach
    there = (place >= 0) & (place < count[:, None, None])
    steps = slots.gather(1, place.clamp(0, max(slots.shape[1] - 1, 0)).flatten().expand(len(slots), -1))
    steps = steps.view(there.shape).masked_fill(~there, -1).to(torch.int32)
    lane = real.nonzero()[:, 0]
    nearby[lane, slots[real]] = steps[real]
    return nearby


def following(states: States, lane: int, slots: Tensor, nearby: Tensor) -> Any:
    """int64[P]: which of the slots [P], in order, is the next step of each and begins where it ends; −1 for none.

    nearby int32[P, T]: the steps before and after.
    """
    step = nearby[:, BEFORE_AND_AFTER]
    place = torch.searchsorted(slots, step.to(torch.int64)).clamp_max(max(len(slots) - 1, 0))
    there = slots[place]
    same = (states.of_lane("obs", lane, there) == states.of_lane("next_obs", lane, slots)).all(-1)
    return torch.where(same & (there == step), place, -1).numpy()
