"""Lists mended through common company, on CPU with numba: two states that stand in one list are near each other.

Experiences ask the index once, when they are new; from then on their lists are renewed by looking at the members of
lists in which their members stand, which costs a small part of asking, and finds more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends import numba_graph as loops
from crystalrl.memory.neighbours.index import Ivf
from crystalrl.memory.neighbours.lists import Lists
from crystalrl.memory.neighbours.states import States
from crystalrl.memory.neighbours.steps import Steps, following

MOST = 256
"""States that a list looks at when it is renewed."""
FEW = 6
"""Lists of a member in which it looks."""
AROUND = 48
"""States near an experience's own among which those within ε are looked for."""


@dataclass
class Company:
    """The lists of one lane, and who stands in which. The latter is as it was when this was made."""

    lists: Lists
    states: States
    index: Ivf
    steps: Steps
    lane: int
    turn: int

    def __post_init__(self) -> None:
        self.mine = self.lists.index[self.lane].numpy()
        self.start = np.empty(len(self.mine) + 1, np.int64)
        self.hosts = np.empty(int((self.mine >= 0).sum()), np.int32)
        loops.reverse(self.mine, self.start, self.hosts)

    @property
    def _graph(self) -> Any:
        return self.mine, self.start, self.hosts

    def ask(self, role: str, slots: Tensor, k: int) -> Any:
        """int32[P, k]: what the index says is nearest."""
        return self.index.nearest(self.lane, self.states.of_lane(role, self.lane, slots), k).astype(np.int32)

    def walk(self, role: str, slots: Tensor, starts: Any, k: int, own: bool = False) -> Any:
        """int32[P, k]: states nearest to the (successor) states of slots [P], found from starts int32[P, T]."""
        found = np.empty((len(slots), k), np.int32)
        limits = (MOST, FEW, self.turn, own)
        starts = np.ascontiguousarray(starts)
        loops.walk(self._graph, self.states.space(role, self.lane), slots.numpy(), starts, limits, found)
        return found

    def nearby(self, slots: Tensor) -> Tensor:
        return self.steps.nearby(torch.full_like(slots, self.lane), slots)

    def admit(self, slots: Tensor) -> Any:
        """Make the lists of the new slots int64[P]; int32[P, T]: states near theirs.

        Where a new one's state is my successor state, one question serves both.
        """
        steps = self.nearby(slots)
        after, nearby = following(self.states, self.lane, slots, steps), steps.numpy().astype(np.int32)
        k, strangers, at = self.lists.k, after < 0, slots.numpy()
        most = max(AROUND, k)
        close = self.walk("obs", slots, np.concatenate([self.ask("obs", slots, most), nearby], 1), most)
        ahead = np.concatenate([at[after, None], close[after, :k]], 1)
        wrong = (ahead == at[:, None]) | (ahead < 0)
        order = np.argsort(wrong, axis=1, kind="stable")[:, :k]
        self.mine[at] = np.take_along_axis(np.where(wrong, -1, ahead), order, 1)
        if strangers.any():
            some = slots[torch.from_numpy(strangers)]
            starts = np.concatenate([self.ask("next_obs", some, k), nearby[strangers]], 1)
            self.mine[some.numpy()] = self.walk("next_obs", some, starts, k)
        return close

    def introduce(self, slots: Tensor, close: Any) -> None:
        hints = np.ascontiguousarray(close)
        loops.introduce(self._graph, self.states.space("next_obs", self.lane), slots.numpy(), hints)

    def renew(self, slots: Tensor) -> None:
        """Let the lists of slots int64[P] look around, from what the index says, too: the company of its own members
        leads back to them."""
        k, at = self.lists.k, slots.numpy()
        known = (self.mine[at], self.nearby(slots).numpy().astype(np.int32))
        starts = np.concatenate([*known, self.ask("next_obs", slots, k)], 1)
        self.mine[at] = self.walk("next_obs", slots, starts, k)

    def around(self, slots: Tensor, starts: Any) -> Any:
        """int32[P, T]: states near those of slots int64[P]."""
        return self.walk("obs", slots, starts, max(AROUND, self.lists.k), own=True)
