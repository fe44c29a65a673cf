"""Lists updated by searches through the graph that they form, on CPU with numba: two states in one list are near each
other.

An experience queries the index once, when it is new. Later its list is renewed by visiting the members of lists that
name its members. That costs a small part of a query and finds more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.memory.neighbours.index import Ivf
from crystalrl.memory.neighbours.lists import Lists
from crystalrl.memory.neighbours.products import Products, Vectors
from crystalrl.memory.neighbours.states import StateVectors
from crystalrl.memory.neighbours.steps import Trajectories
from crystalrl.memory.neighbours.tuning import GraphTuning


@dataclass
class Refiner:
    """The lists of one lane as a graph. Reverse neighbours are computed once, at construction."""

    loops: ModuleType
    """`numba_graph`"""
    products: ModuleType | None
    """`numba_products`"""
    lists: Lists
    states: StateVectors
    index: Ivf | None
    """None: a query compares with all stored states."""
    trajectories: Trajectories
    tuning: GraphTuning
    lane: int
    turn: int
    """Consolidations of the lane so far; decides which lists a search visits first."""
    epsilon: float
    """Distance within which states are similar."""
    scattered: bool = False
    """Whether most new experiences have no adjacent step among their nearest."""

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

    def query(self, role: str, slots: Tensor, starts: Any, k: int) -> Any:
        """int32[P, k]: what the index finds nearest to the (successor) states of slots int64[P], or a comparison with
        all, after a search from starts int32[P, T]."""
        if self.index is None:
            return self.compare(role, slots, self.search(role, slots, starts, k))
        return self.index.nearest(self.lane, self.states.of_lane(role, self.lane, slots), k).astype(np.int32)

    @property
    def _products(self) -> Products:
        assert self.products is not None
        return Products(self.products)

    @cached_property
    def _stored(self) -> Vectors:
        slots = self.trajectories.order[self.lane, : int(self.trajectories.count[self.lane])]
        return self._products.vectors(self.states.of_lane("obs", self.lane, slots), slots)

    def compare(self, role: str, slots: Tensor, found: Any) -> Any:
        """int32[P, k]: of all states, those nearest to the (successor) states of slots int64[P]; found int32[P, k]: of
        some states."""
        few, others = min(self.lists.k + 2, found.shape[1]), found.shape[1]
        last = torch.from_numpy(found[:, few - 1].astype(np.int64))
        lane = torch.full_like(slots, self.lane)
        far = self.states.distance(role, lane, slots, last.clamp_min(0)[:, None])[:, 0].masked_fill(last < 0, torch.inf)
        points = self._products.vectors(self.states.of_lane(role, self.lane, slots), slots)
        return self._products.nearest(points, self._stored, few, others, self.epsilon, far.numpy())

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

        A search starts from starts int32[P, T] and from the result of the step before. One in `every` also queries, and
        so do all that are `_lost`; with an index, these then search wider. Without lists to lead anywhere, all query.
        """
        order = self.trajectories.place[self.lane, slots].argsort(stable=True)
        slots, starts, known = slots[order], starts[order.numpy()], np.full((len(slots), k), -1, np.int32)
        place = self.trajectories.place[self.lane, slots].numpy()
        before = np.arange(-1, len(slots) - 1)
        before[1:][np.diff(place) > 2] = -1
        asking = (place + self.turn) % (every if len(self.reverse) else 1) == 0
        known[asking] = self.query(role, slots[torch.from_numpy(asking)], starts[asking], k)
        if self.index is None and asking.all():
            found = known
        else:
            found = self._follow(role, slots, np.concatenate([starts, known], 1), k, before, asking)
        if self.index is None and role == "obs":
            self.scattered = 2 * self._lost(slots, found).sum() > len(slots)
        ordered = np.empty_like(found)
        ordered[order.numpy()] = found
        return ordered

    def _follow(self, role: str, slots: Tensor, starts: Any, k: int, before: Any, asking: Any) -> Any:
        """`follow` for slots in order; the last k of starts int32[P, T] are what the rows asking bool[P] have found."""
        found = self.search(role, slots, starts, k, before=before)
        lost = self._lost(slots, found)
        late = lost & ~asking
        if self.index is None:
            found[asking] = starts[asking, -k:]
            found[late] = self.compare(role, slots[torch.from_numpy(late)], found[late])
            return found
        known = starts[:, -k:]
        known[late] = self.query(role, slots[torch.from_numpy(late)], starts[late], k)
        again = np.concatenate([found[lost], known[lost]], 1)
        found[lost] = self.search(role, slots[torch.from_numpy(lost)], again, k, most=self.tuning.wide)
        return found

    def _lost(self, slots: Tensor, found: Any) -> Any:
        """bool[P]: of the states found int32[P, T], the nearest ones include no step before or after those in slots
        int64[P]; without an index: one of the nearest two is no such step."""
        adjacent = self.adjacent(slots).numpy()
        adjacent = np.where(adjacent < 0, -2, adjacent)
        some = self.lists.k if self.index is not None else 2
        near = (found[:, :some, None] == adjacent[:, None, :]).any(2)
        lost: Any = ~(near.any(1) if self.index is not None else near.all(1))
        return lost

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
        """Offer the new slots int64[P] to the lists that name the states near theirs, close int32[P, T]; without an
        index, in noise, to all."""
        space = self.states.space("next_obs", self.lane)
        if self.index is None and self.scattered:
            self._offer(slots, space)
        else:
            hints = np.ascontiguousarray(close)
            self.loops.insert(self._graph, space, slots.numpy(), hints)

    def _offer(self, slots: Tensor, space: Any) -> None:
        """Offer the new slots int64[P] to all lists that are not empty."""
        length = torch.from_numpy((self.own >= 0).sum(1))
        owners, last = length.nonzero()[:, 0], np.full(len(self.own), np.inf, np.float32)
        self.loops.distances(space, self.own[np.arange(len(self.own)), length.numpy() - 1], last)
        points = self._products.vectors(self.states.of_lane("next_obs", self.lane, owners), owners)
        new = self._products.vectors(self.states.of_lane("obs", self.lane, slots), slots)
        self._products.offer(points, new, self.own, space, last**2)

    def renew(self, slots: Tensor) -> None:
        """Search for better neighbours for the lists of slots int64[P]. Also starts from what the index finds, because
        a search from a list's own members alone leads back to them."""
        k, at = self.lists.k, slots.numpy()
        known = (self.own[at], self.adjacent(slots).numpy().astype(np.int32))
        self.own[at] = self.follow("next_obs", slots, np.concatenate(known, 1), k)

    def around(self, slots: Tensor, starts: Any) -> Any:
        """int32[P, T]: states near those of slots int64[P]."""
        return self.search("obs", slots, starts, self._around, own=True)
