"""Steps of the same environment shortly before and after: mostly the nearest there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.neighbours.states import States

BEFORE_AND_AFTER = 6
"""So many steps before and after an experience, of those that are left, are offered to its list."""


class Steps:
    """Everything stored in order of arrival, environment by environment. (Where a step was no transition, experiences
    count for another environment's from then on. They are offered, not believed.)"""

    def __init__(self, draft: Draft, envs: int) -> None:
        key = (draft.birth % envs << 40) + draft.birth // envs
        self.order = key.masked_fill(~draft.occupied, torch.iinfo(torch.int64).max).argsort(dim=1)
        self.place = torch.empty_like(self.order)
        self.place.scatter_(1, self.order, torch.arange(draft.slots, device=key.device).expand_as(self.order))
        self.count = draft.occupied.sum(-1)

    def nearby(self, lane: Tensor, slot: Tensor) -> Tensor:
        """int64[P, T]: slots of the steps before and after those of (lane, slot) [P], −1 for none."""
        reach = torch.arange(-BEFORE_AND_AFTER, BEFORE_AND_AFTER + 1, device=slot.device)
        place = self.place[lane, slot][:, None] + reach[reach != 0]
        there = (place >= 0) & (place < self.count[lane][:, None])
        found: Tensor = self.order[lane[:, None], place.clamp(0, self.order.shape[1] - 1)]
        return found.masked_fill(~there, -1)


def following(states: States, lane: int, slots: Tensor, nearby: Tensor) -> Any:
    """int64[P]: which of the slots [P], in order, is the next step of each and begins where it ends; −1 for none.

    nearby int64[P, T]: the steps before and after.
    """
    step = nearby[:, BEFORE_AND_AFTER].contiguous()
    place = torch.searchsorted(slots, step).clamp_max(max(len(slots) - 1, 0))
    there = slots[place]
    same = (states.of_lane("obs", lane, there) == states.of_lane("next_obs", lane, slots)).all(-1)
    return torch.where(same & (there == step), place, -1).numpy()
