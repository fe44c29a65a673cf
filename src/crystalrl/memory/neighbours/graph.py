"""Neighbours and contradictions from lists that are kept between consolidations, in O(N)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends import Backend
from crystalrl.memory.neighbours.all_pairs import Found, needs_near
from crystalrl.memory.neighbours.contradiction import NeighbourClass, contradicted_in_lists, neighbour_class
from crystalrl.memory.neighbours.epsilon import Scales
from crystalrl.memory.neighbours.exact import Near
from crystalrl.memory.neighbours.experiences import Outcomes
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.index import Brute, Ivf, empty_index, without_index
from crystalrl.memory.neighbours.lists import Lists, grouped
from crystalrl.memory.neighbours.refine import Refiner
from crystalrl.memory.neighbours.similar import SimilarLists
from crystalrl.memory.neighbours.states import StateVectors
from crystalrl.memory.neighbours.steps import Trajectories
from crystalrl.memory.neighbours.tuning import GraphTuning
from crystalrl.memory.neighbours.view import View, padded
from crystalrl.memory.storage.external import AnyArena
from crystalrl.params import CrystalParams


class NeighbourGraph:
    """Neighbour lists of the lanes that hold many experiences, and the index from which they are filled. They depend on
    past queries, so rebuilding them from scratch would not reproduce them."""

    def __init__(
        self,
        params: CrystalParams,
        features: Features,
        arena: AnyArena,
        scales: Scales,
        backend: Backend,
        tuning: GraphTuning,
    ) -> None:
        spec = features.spec
        self.params, self.features, self.scales, self.backend, self.tuning = params, features, scales, backend, tuning
        self.lanes, self.capacity, self.device = spec.lanes or 1, spec.capacity, torch.device(spec.device)
        self.states = StateVectors(features, arena, params.raw_distance)
        self.rule = params.interference
        self.successor_lists = self._empty_lists(params.k + tuning.spare) if needs_near(params) else None
        """The states nearest to each successor state."""
        self.similar_lists = self._empty_lists(tuning.similar) if self.rule != "none" else None
        """The experiences within ε of each, as the rule measures it."""
        indexed = not without_index(params, backend, tuning)
        sizes = (self.lanes, self.capacity, self.states.size)
        self.index = empty_index(tuning.index, sizes, self.device) if indexed else None
        self.epsilon = torch.zeros(self.lanes, 1, dtype=torch.float32, device=self.device)
        self.built_for = torch.zeros(self.lanes, dtype=torch.int64, device=self.device)
        """Experiences that each lane held when its index was built; 0: not yet."""
        self.added = torch.zeros_like(self.built_for)
        """Experiences added to each lane since its index was built."""
        self.reach = torch.full((self.lanes,), self.capacity, device="cpu")
        """int64[L], on CPU: the index of each lane holds only slots below this."""
        self.active = torch.zeros(self.lanes, dtype=torch.bool, device="cpu")
        """Lanes that keep lists, on CPU."""
        self.has_unevaluated = torch.zeros(self.lanes, 0, dtype=torch.bool, device=self.device)
        """bool[L, W]: slots with an unevaluated experience within ε, in the current consolidation."""
        self._classify: NeighbourClass | None = None

    def _empty_lists(self, k: int) -> Lists:
        return Lists(self.lanes, self.capacity, k, self.device, self.backend.graph)

    @property
    def _lists(self) -> list[Lists]:
        return [lists for lists in (self.successor_lists, self.similar_lists) if lists is not None]

    def refresh(self, view: View, lanes: Tensor) -> Found:
        """Update the lists of the lanes bool[L] (on CPU), and read the results from them; other lists are dropped.

        From now on the payload is read from the arena of this view.
        """
        self.states.arena = view.arena
        self._drop(self.active & ~lanes)
        self.active = lanes
        view = view.part(lanes, view.slots)
        found = {"birth": view.birth, "phase": view.phase, "unevaluated": view.unevaluated}
        outcomes = Outcomes(reward=view.fields["reward"], **found)
        delta_r = self.scales.delta_r(view)
        self._compared = (self.rule, outcomes, delta_r)
        self._classify = None if self.rule == "none" else neighbour_class(self.rule, outcomes, delta_r)
        self._update(view)
        near = None
        if self.successor_lists is not None:
            index = self.successor_lists.index[:, : view.slots, : self.params.k]
            near = Near(index.clamp_min(0), index >= 0)
        if self.similar_lists is None:
            return Found(near, torch.zeros_like(view.occupied), self.scales.nothing, self.scales.nothing)
        lists = self.similar_lists.index[:, : view.slots]
        flagged = contradicted_in_lists(self.rule, lists, outcomes, delta_r, self.has_unevaluated, self.backend.similar)
        return Found(near, flagged, self.epsilon, delta_r)

    def _drop(self, lanes: Tensor) -> None:
        for lane in lanes.nonzero()[:, 0].tolist():
            self.built_for[lane] = self.added[lane] = 0
            self.epsilon[lane] = 0
            for lists in self._lists:
                lists.index[lane] = -1

    def _update(self, view: View) -> None:
        """Bring index, ε and lists of the lanes that are due up to date."""
        self.has_unevaluated = torch.zeros_like(view.occupied)
        removed = (view.unevaluated | ~view.occupied) & view.due
        new = view.unevaluated | (view.occupied & view.due & (self.built_for == 0)[:, None])
        for lists in self._lists:
            lists.remove(removed, view.slots)
        turn, short = self._to_renew(view, new)
        self._update_index(view, self._with_beyond(view, removed), new)
        querying = new & (new.sum(-1, keepdim=True) <= self.tuning.query_limit)
        trajectories = Trajectories(view, self.features.spec.envs)
        self._offer_adjacent(view, new & ~querying, trajectories)
        if self.successor_lists is not None and not isinstance(self.index, Brute) and self.backend.graph is not None:
            self._refine(view, querying, (turn, short), trajectories)
        else:
            self._insert(view, *self._query(view, querying | turn | short, trajectories))

    def _update_index(self, view: View, removed: Tensor, new: Tensor) -> None:
        """Update the index, or rebuild it where too much has changed; measure ε where that is due."""
        slots, real = padded(new)
        self.states.take(slots, real)
        self.added = self.added + new.sum(-1)
        count = (view.occupied & view.due).sum(-1)
        stale = (count >= 2 * self.built_for) | (self.added >= count) | self.states.drifted(view)
        stale = stale & (count > 0)
        period = (view.width.to(count.device) // self.tuning.epsilon_every).clamp_min(1)
        measured = stale | (view.due[:, 0] & (view.consolidations % period == 0))
        rebuilt, measuring = torch.stack([stale, measured]).cpu()  # one synchronisation
        if bool(rebuilt.any()):
            self.states.fit(view, stale)
            if self.index is not None:
                self.index.build(view.occupied, stale, lambda some: self.states.vectors("obs", some))
            self.built_for = torch.where(stale, count, self.built_for)
            self.added = torch.where(stale, 0, self.added)
        if self.index is not None and not bool(rebuilt.all()):
            kept = ~stale[:, None]
            self.index.replace(removed & kept, slots, real & kept, self.states.vectors("obs", slots))
        self.reach[view.due_on_host] = view.slots
        if self.similar_lists is not None and bool(measuring.any()):
            epsilon = self.scales.epsilon_of(self.states, view, self.backend.pairs)
            self.epsilon = torch.where(measured[:, None], epsilon, self.epsilon)

    def _with_beyond(self, view: View, removed: Tensor) -> Tensor:
        """bool[L, ≥ W]: removed bool[L, W], and the slots beyond W that the index of a lane may still name."""
        beyond = int(torch.where(view.due_on_host, self.reach, 0).max()) - view.slots
        return removed if beyond <= 0 else torch.cat([removed, view.due.expand(-1, beyond)], 1)

    def _to_renew(self, view: View, new: Tensor) -> tuple[Tensor, Tensor]:
        """bool[L, W] each: lists that are renewed because it is their turn, and because they are short."""
        budget = view.unevaluated.sum(-1, keepdim=True).clamp(self.tuning.min_budget, self.tuning.max_budget)
        period = (self.tuning.renewed_every * view.width.to(budget.device)[:, None] // budget).clamp_min(1)
        number = torch.arange(view.slots, device=view.phase.device)
        known = view.occupied & view.due & ~new
        turn = known & (number % period == view.consolidations[:, None] % period)
        if self.successor_lists is None:
            return turn, torch.zeros_like(turn)
        length = self.successor_lists.lengths(view.slots)
        short = known & ~turn & (length < self.params.k)
        shortest = length.masked_fill(~short, self.successor_lists.k).to(torch.uint8).argsort(dim=1, stable=True)
        limit = self.tuning.short_lists[number.device.type] * budget
        return turn, short & torch.zeros_like(short).scatter_(1, shortest, number < limit)

    def _offer_adjacent(self, view: View, new: Tensor, trajectories: Trajectories) -> None:
        """Fill the lists of the new slots bool[L, W] with adjacent steps, without a query."""
        lane, slot = new.nonzero(as_tuple=True)
        for part in torch.arange(len(slot), device=slot.device).split(1 << 16):
            candidates = trajectories.adjacent(lane[part], slot[part])
            self._offer(self.successor_lists, view, lane[part], slot[part], candidates)
            self._offer(self.similar_lists, view, lane[part], slot[part], candidates)

    def _offer(self, lists: Lists | None, view: View, lane: Tensor, slot: Tensor, candidates: Tensor) -> None:
        """Offer candidates int64[P, T] to the lists of (lane, slot) [P], if such lists are kept."""
        if lists is None:
            return
        if lists is self.successor_lists:
            lists.offer(lane, slot, candidates, self.states.successor_distance)
        else:
            lists.offer(lane, slot, candidates, self._similarity, self._classify)

    def _refine(self, view: View, new: Tensor, renewed: tuple[Tensor, Tensor], trajectories: Trajectories) -> None:
        """New experiences query the index; lists that are renewed search the graph."""
        assert self.successor_lists is not None
        assert self.index is None or isinstance(self.index, Ivf)
        assert self.backend.graph is not None
        for lane in view.due_on_host.nonzero()[:, 0].tolist():
            refiner = Refiner(
                loops=self.backend.graph, products=self.backend.products, lists=self.successor_lists,
                states=self.states, index=self.index, trajectories=trajectories, tuning=self.tuning, lane=lane,
                turn=int(view.consolidations[lane]), epsilon=float(self.epsilon[lane]),
            )  # fmt: skip
            slots, turn, short = (mask[lane].nonzero()[:, 0] for mask in (new, *renewed))
            close = refiner.fill(slots)
            if self.tuning.insert:
                refiner.insert(slots, close)
            refiner.renew(torch.cat([turn, short]))
            if self.similar_lists is not None:
                assert self.backend.similar is not None
                lists, loops = self.similar_lists, self.backend.similar
                around = refiner.around(turn, lists.index[lane, turn].numpy())
                similar = SimilarLists(loops, lists, self.states, lane, self.epsilon, *self._compared)
                similar.offer(torch.cat([slots, turn]), np.concatenate([close, around]))
                similar.offer_back(slots, close, self.has_unevaluated[lane])

    def _query(self, view: View, querying: Tensor, trajectories: Trajectories) -> tuple[Tensor, Tensor, Tensor]:
        """Let the lists of the slots bool[L, W] query the index. Returns, for the unevaluated ones, lane and slot
        int64[P], and states near theirs int64[P, T]."""
        assert self.index is not None
        slots, real = padded(querying)
        close = []
        for part in torch.arange(slots.shape[1], device=slots.device).split(1 << 14):
            some, exist = slots[:, part], real[:, part]
            lane, slot = exist.nonzero()[:, 0], some[exist]
            adjacent = trajectories.adjacent(lane, slot)
            if self.successor_lists is not None:
                queries = self.states.vectors("next_obs", some)
                found = self.index.search(queries, exist, self.successor_lists.k + 3)
                self._offer(self.successor_lists, view, lane, slot, torch.cat([found[exist], adjacent], -1))
            found = self.index.search(self.states.vectors("obs", some), exist, self.tuning.candidates)
            self._offer(self.similar_lists, view, lane, slot, torch.cat([found[exist], adjacent], -1))
            unevaluated = view.unevaluated[lane, slot]
            close.append((lane[unevaluated], slot[unevaluated], found[exist][unevaluated]))
        lane, slot, near = (torch.cat(each) for each in zip(*close, strict=True))
        return lane, slot, near

    def _insert(self, view: View, lane: Tensor, slot: Tensor, near: Tensor) -> None:
        """Offer the unevaluated (lane, slot) [P], with states near them int64[P, T], to the lists of others."""
        if not len(slot):
            return
        if self.successor_lists is not None and self.tuning.insert:
            hints = near[:, : self.tuning.hints + 1]
            for here, owner, new in self.successor_lists.reverse_neighbours(lane, slot, hints, view.slots):
                far = self.states.successor_distance(here, owner, new[:, None])[:, 0]
                kept = far < self._farthest(here, owner)
                self._offer_grouped(self.successor_lists, view, here[kept] * view.slots + owner[kept], new[kept])
        if self.similar_lists is not None:
            self._insert_similar(view, lane, slot, near)

    def _insert_similar(self, view: View, lane: Tensor, slot: Tensor, near: Tensor) -> None:
        """Offer (lane, slot) [P] to the lists of those of near int64[P, T] within ε: similarity is symmetric."""
        assert self.similar_lists is not None
        pairs = []
        for part in torch.arange(len(slot), device=slot.device).split(self.similar_lists.chunk // near.shape[1]):
            others = near[part]
            within = self._similarity(lane[part], slot[part], others.clamp_min(0))
            within = torch.isfinite(within) & (others >= 0) & (others != slot[part, None])
            row, column = within.nonzero(as_tuple=True)
            pairs.append((lane[part][row] * view.slots + others[row, column], slot[part][row]))
        owner, new = (torch.cat(each) for each in zip(*pairs, strict=True)) if pairs else (slot, slot)
        self.has_unevaluated.view(-1)[owner] = True
        owner, order = owner.sort(stable=True)
        self._offer_grouped(self.similar_lists, view, owner, new[order])

    def _offer_grouped(self, lists: Lists, view: View, owner: Tensor, new: Tensor) -> None:
        """Offer slots new int64[Q] to the lists at positions owner int64[Q] in a flat [L, W], sorted."""
        owners, candidates = grouped(owner, new, self.tuning.insert_at_once)
        self._offer(lists, view, owners // view.slots, owners % view.slots, candidates)

    def _farthest(self, lane: Tensor, slot: Tensor) -> Tensor:
        """float32[P]: distance of the last in the list of (lane, slot) [P]; infinite for an empty list.

        A list accepts nothing farther, even if it has room. So it holds the nearest found, and its length shows when to
        renew it.
        """
        assert self.successor_lists is not None
        names = self.successor_lists.index[lane, slot].to(torch.int64)
        count = (names >= 0).sum(-1, keepdim=True)
        far = self.states.successor_distance(lane, slot, names.gather(1, (count - 1).clamp_min(0)).clamp_min(0))
        return far.masked_fill(count == 0, torch.inf)[:, 0]

    def _similarity(self, lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        """float32[P, T]: distance as the rule measures it; infinite beyond ε or where the rule does not compare."""
        states, mine = self.states, lane[:, None]
        far = states.distance("obs", lane, slot, others)
        if self.features.discrete:
            other = states.column("action", mine, slot[:, None]) != states.column("action", mine, others)
            far = far + other * 2**0.5 if self.rule == "exists" else far.masked_fill(other, torch.inf)
        else:
            actions = states.action_distance(lane, slot, others)
            far = far + actions if self.rule == "exists" else torch.maximum(far, actions)
        if self.features.spec.context and self.rule != "exists":
            other = states.column("context", mine, slot[:, None]) != states.column("context", mine, others)
            far = far.masked_fill(other, torch.inf)
        beyond = torch.ge if self.rule == "exists" else torch.gt
        return far.masked_fill(beyond(far, self.epsilon[lane]), torch.inf)

    @property
    def list_bytes(self) -> int:
        return sum(lists.nbytes for lists in self._lists)

    @property
    def nbytes(self) -> int:
        """Bytes of the lists, and of the vectors of the index and of states that are not compared as stored."""
        return self.list_bytes + self.states.nbytes + (self.index.nbytes if self.index is not None else 0)
