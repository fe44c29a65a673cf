"""Lists updated by searches through the graph that they form, on CPU with numba: two states in one list are near each
other.

An experience queries the index once, when it is new. Later its list is renewed by visiting the members of lists that
name its members. That costs a small part of a query and finds more.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.memory.neighbours.index import Ivf
from crystalrl.memory.neighbours.lists import Lists
from crystalrl.memory.neighbours.states import StateVectors
from crystalrl.memory.neighbours.steps import Trajectories
from crystalrl.memory.neighbours.tuning import GraphTuning


@dataclass
class Refiner:
    """The lists of one lane as a graph. Reverse neighbours are computed once, at construction."""

    loops: ModuleType
    lists: Lists
    states: StateVectors
    index: Ivf
    trajectories: Trajectories
    tuning: GraphTuning
    lane: int
    turn: int
    """Consolidations of the lane so far; decides which lists a search visits first."""

    def __post_init__(self) -> None:
        self.own = self.lists.index[self.lane].numpy()
        self.start = np.empty(len(self.own) + 1, np.int64)
        self.reverse = np.empty(int((self.own >= 0).sum()), np.int32)
        self.loops.fill_reverse(self.own, self.start, self.reverse)

    @property
    def _graph(self) -> Any:
        return self.own, self.start, self.reverse

    @property
    def _around(self) -> int:
        return max(self.tuning.around, self.lists.k)

    def query(self, role: str, slots: Tensor, k: int) -> Any:
        """int32[P, k]: what the index finds nearest to the (successor) states of slots int64[P]."""
        return self.index.nearest(self.lane, self.states.of_lane(role, self.lane, slots), k).astype(np.int32)

    def search(
        self, role: str, slots: Tensor, starts: Any, k: int, *, before: Any = None, most: int | None = None,
        own: bool = False,
    ) -> Any:  # fmt: skip
        """int32[P, k]: states nearest to the (successor) states of slots int64[P], found from starts int32[P, T] and
        from the result of an earlier row, named by before int64[P] (−1: none)."""
        found = np.empty((len(slots), k), np.int32)
        limits = (most or self.tuning.visits, self.tuning.reverse, self.turn, own)
        before = np.full(len(slots), -1, np.int64) if before is None else before
        starts = np.ascontiguousarray(starts)
        space = self.states.space(role, self.lane)
        self.loops.search(self._graph, space, slots.numpy(), starts, before, limits, found)
        return found

    def follow(self, role: str, slots: Tensor, starts: Any, k: int, every: int = 1) -> Any:
        """int32[P, k]: states nearest to the (successor) states of slots int64[P], found along their trajectories.

        A search starts from starts int32[P, T] and from the result of the step before. One in `every` also queries the
        index, and so does each whose nearest states turn out to include no adjacent step: it then searches more widely.
        While there are no lists to follow, all query.
        """
        order = self.trajectories.place[self.lane, slots].argsort(stable=True)
        slots, starts, known = slots[order], starts[order.numpy()], np.full((len(slots), k), -1, np.int32)
        place = self.trajectories.place[self.lane, slots].numpy()
        before = np.arange(-1, len(slots) - 1)
        before[1:][np.diff(place) > 2] = -1
        asking = (place + self.turn) % (every if len(self.reverse) else 1) == 0
        known[asking] = self.query(role, slots[torch.from_numpy(asking)], k)
        found = self.search(role, slots, np.concatenate([starts, known], 1), k, before=before)
        lost = self._lost(slots, found)
        late = lost & ~asking
        known[late] = self.query(role, slots[torch.from_numpy(late)], k)
        again = np.concatenate([found[lost], known[lost]], 1)
        found[lost] = self.search(role, slots[torch.from_numpy(lost)], again, k, most=self.tuning.wide)
        ordered = np.empty_like(found)
        ordered[order.numpy()] = found
        return ordered

    def _lost(self, slots: Tensor, found: Any) -> Any:
        """bool[P]: no step before or after those in slots int64[P] is among the nearest states found int32[P, T]."""
        adjacent = self.adjacent(slots).numpy()
        adjacent = np.where(adjacent < 0, -2, adjacent)
        return ~(found[:, : self.lists.k, None] == adjacent[:, None, :]).any((1, 2))

    def adjacent(self, slots: Tensor) -> Tensor:
        """int64[P, T]: steps before and after those in slots int64[P]."""
        return self.trajectories.adjacent(torch.full_like(slots, self.lane), slots)

    def fill(self, slots: Tensor) -> Any:
        """Fill the lists of the new slots int64[P]; int32[P, T]: states near theirs.

        Where the successor state of one is the state of the next, one query serves both.
        """
        adjacent = self.adjacent(slots)
        following = self.trajectories.successor(self.states, self.lane, slots, adjacent)
        steps = adjacent.numpy().astype(np.int32)
        k, alone, at = self.lists.k, following < 0, slots.numpy()
        close = self.follow("obs", slots, steps, self._around, self.tuning.query_every)
        ahead = np.concatenate([at[following, None], close[following, :k]], 1)
        wrong = (ahead == at[:, None]) | (ahead < 0)
        order = np.argsort(wrong, axis=1, kind="stable")[:, :k]
        self.own[at] = np.take_along_axis(np.where(wrong, -1, ahead), order, 1)
        if alone.any():
            some = slots[torch.from_numpy(alone)]
            starts = np.concatenate([steps[alone], close[alone]], 1)
            self.own[some.numpy()] = self.follow("next_obs", some, starts, k, self.tuning.query_every)
        return close

    def insert(self, slots: Tensor, close: Any) -> None:
        """Offer the new slots int64[P] to the lists that name the states near theirs, close int32[P, T]."""
        hints = np.ascontiguousarray(close)
        self.loops.insert(self._graph, self.states.space("next_obs", self.lane), slots.numpy(), hints)

    def renew(self, slots: Tensor) -> None:
        """Search for better neighbours for the lists of slots int64[P]. Also starts from what the index finds, because
        a search from a list's own members alone leads back to them."""
        k, at = self.lists.k, slots.numpy()
        known = (self.own[at], self.adjacent(slots).numpy().astype(np.int32))
        self.own[at] = self.follow("next_obs", slots, np.concatenate(known, 1), k)

    def around(self, slots: Tensor, starts: Any) -> Any:
        """int32[P, T]: states near those of slots int64[P]."""
        return self.search("obs", slots, starts, self._around, own=True)
