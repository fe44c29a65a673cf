"""The steps of the same environment shortly before and after an experience: mostly its nearest neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from crystalrl.memory.neighbours.states import StateVectors
from crystalrl.memory.neighbours.view import View


class Trajectories:
    """Everything stored in order of arrival, environment by environment.

    If a step was not valid, later experiences are attributed to the wrong environment. That does no harm: adjacent
    steps are only candidates for a list, whose distances are compared.
    """

    reach: ClassVar[int] = 6
    """Steps before and after an experience, of those still stored, that are candidates for its list."""

    def __init__(self, view: View, envs: int) -> None:
        key = (view.birth % envs << 40) + view.birth // envs
        self.order = key.masked_fill(~view.occupied, torch.iinfo(torch.int64).max).argsort(dim=1)
        self.place = torch.empty_like(self.order)
        self.place.scatter_(1, self.order, torch.arange(view.slots, device=key.device).expand_as(self.order))
        self.count = view.occupied.sum(-1)

    def adjacent(self, lane: Tensor, slot: Tensor) -> Tensor:
        """int64[P, 2·reach]: slots of the steps before and after those of (lane, slot) [P], −1 for none."""
        reach = torch.arange(-self.reach, self.reach + 1, device=slot.device)
        place = self.place[lane, slot][:, None] + reach[reach != 0]
        there = (place >= 0) & (place < self.count[lane][:, None])
        found: Tensor = self.order[lane[:, None], place.clamp(0, self.order.shape[1] - 1)]
        return found.masked_fill(~there, -1)

    def successor(self, states: StateVectors, lane: int, slots: Tensor, adjacent: Tensor) -> Any:
        """int64[P]: position among the slots int64[P], in ascending order, of the next step of each, if its state is
        the successor state; −1 for none. adjacent int64[P, T]: the steps before and after."""
        step = adjacent[:, self.reach].contiguous()
        place = torch.searchsorted(slots, step).clamp_max(max(len(slots) - 1, 0))
        there = slots[place]
        same = (states.of_lane("obs", lane, there) == states.of_lane("next_obs", lane, slots)).all(-1)
        return torch.where(same & (there == step), place, -1).numpy()
