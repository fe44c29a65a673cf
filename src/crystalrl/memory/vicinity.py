"""Surroundings from kept lists: what a consolidation needs to know about who is near whom, in O(N)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.dynamics import LIQUID
from crystalrl.memory import interference, neighbours
from crystalrl.memory.draft import Draft, padded
from crystalrl.memory.interference import Scene
from crystalrl.memory.lists import Lists, grouped
from crystalrl.memory.search import Brute, Ivf, Search
from crystalrl.memory.states import States
from crystalrl.memory.surroundings import Surroundings, needs_near, reward_spread

if TYPE_CHECKING:
    from crystalrl.memory.crystal import CrystalMemory

SPARE = 2
"""Neighbours of a successor state listed beyond k, so that a loss is not felt at once."""
ALIKE = 10
"""Experiences within ε that a list names."""
ASKED = 64
"""States among which those are looked for."""
TURNS, AT_LEAST = 128, 2048
"""One list in so many asks anew in each consolidation, but at least so many lists."""
HINTS = 10
"""Neighbours through whose company a newcomer finds the lists it belongs to."""
SPACING_EVERY = 1 << 16
"""ε is measured in every n-th consolidation of n·65,536 slots."""
GUESTS = 8


class Vicinity:
    """Kept lists of all lanes and the index they are mended from. A cache: it may be thrown away at any time."""

    def __init__(self, memory: CrystalMemory) -> None:
        self.memory, self.states = memory, States(memory)
        lanes, slots, device = memory.lanes, memory.capacity, memory.device
        self.index: Search = (
            Ivf(lanes, self.states.size)
            if device.type == "cpu"
            else Brute(lanes, slots, self.states.size, device)
        )  # fmt: skip
        self.rule = memory.params.interference
        self.ahead = Lists(lanes, slots, memory.params.k + SPARE, device) if needs_near(memory) else None
        self.alike = Lists(lanes, slots, ALIKE, device) if self.rule != "none" else None
        self.epsilon = torch.zeros(lanes, 1, device=device)
        self.built_for = 0

    def look(self, draft: Draft) -> Surroundings:
        """Mend the lists, and read from them."""
        self._follow(draft)
        near = None
        if self.ahead is not None:
            index = self.ahead.index[:, : draft.slots, : self.memory.params.k]
            near = neighbours.Near(index.clamp_min(0), index >= 0)
        if self.alike is None:
            nothing = torch.zeros(self.memory.lanes, 1, device=self.memory.device)
            return Surroundings(near, torch.zeros_like(draft.occupied), nothing, nothing)
        delta_r = reward_spread(self.memory, draft)
        flagged = interference.listed(
            self.rule, self.alike.index[:, : draft.slots], draft.fields["reward"], draft.birth, draft.phase, delta_r
        )
        return Surroundings(near, flagged, self.epsilon, delta_r)

    def _follow(self, draft: Draft) -> None:
        """Bring index and lists up to date with the draft."""
        gone = draft.fresh | ~draft.occupied
        asking = draft.fresh | self._in_turn(draft)
        for lists in self._lists:
            lists.forget(gone, draft.slots)
        slots, real = padded(draft.fresh)
        self.states.take(slots, real)
        count = int(draft.occupied.sum(-1).max())
        if not self.built_for or count >= 2 * self.built_for or self.states.off(draft):
            if not self.built_for:
                self.states.take(*padded(draft.occupied))
                asking = draft.occupied
            self.states.fit(draft)
            self.index.build(draft.occupied, lambda some: self.states.vectors("obs", some))
            self.built_for = count
            self._measure(draft)
        else:
            self.index.replace(gone, slots, real, self.states.vectors("obs", slots))
            if int(draft.turns.max()) % max(1, draft.slots // SPACING_EVERY) == 0:
                self._measure(draft)
        close = self._ask(draft, asking)
        self._introduce(draft, close)

    @property
    def _lists(self) -> list[Lists]:
        return [lists for lists in (self.ahead, self.alike) if lists is not None]

    def _in_turn(self, draft: Draft) -> Tensor:
        """bool[L, W]: lists that ask anew because it is their turn, or because they have lost most."""
        period = max(1, min(TURNS, draft.slots // AT_LEAST))
        number = torch.arange(draft.slots, device=draft.phase.device)
        asking = number % period == draft.turns[:, None] % period
        if self.ahead is not None:
            k = self.memory.params.k
            poor = self.ahead.lengths(draft.slots) < k - 1
            asking |= poor & (poor.cumsum(-1) <= draft.slots // period)
        in_turn: Tensor = asking & draft.occupied
        return in_turn

    def _ask(self, draft: Draft, asking: Tensor) -> Tensor:
        """Let lists ask the index; the states near the fresh ones, int64[P, T], in the order of `nonzero`."""
        slots, real = padded(asking)
        close = []
        for part in torch.arange(slots.shape[1], device=slots.device).split(1 << 14):
            some, exist = slots[:, part], real[:, part]
            lane, slot = exist.nonzero()[:, 0], some[exist]
            if self.ahead is not None:
                found = self.index.search(self.states.vectors("next_obs", some), exist, self.ahead.k + 3)
                self.ahead.offer(lane, slot, found[exist], self._ahead_of)
            found = self.index.search(self.states.vectors("obs", some), exist, ASKED)
            if self.alike is not None:
                self.alike.offer(lane, slot, found[exist], self._apart, self._kin(draft))
            close.append(torch.cat([(lane * draft.slots + slot)[:, None], found[exist][:, : HINTS + 1]], -1))
        return torch.cat(close)

    def _introduce(self, draft: Draft, close: Tensor) -> None:
        """Offer the fresh to the lists of others. close int64[P, 1 + T]: place of a slot, and states near it."""
        place, near = close[:, 0], close[:, 1:]
        fresh = draft.fresh.flatten()[place]
        lane, slot, near = (place // draft.slots)[fresh], (place % draft.slots)[fresh], near[fresh]
        if not len(slot):
            return
        if self.ahead is not None:
            for here, host, guest in self.ahead.hosts(lane, slot, near, draft.slots):
                far = self._ahead_of(here, host, guest[:, None])[:, 0]
                self._welcome(self.ahead, draft, here, host, guest, far < self._reach(here, host))
        if self.alike is not None:
            for here, host, guest in self.alike.hosts(lane, slot, near, draft.slots):
                within = torch.isfinite(self._apart(here, host, guest[:, None])[:, 0])
                self._welcome(self.alike, draft, here, host, guest, within)

    def _welcome(self, lists: Lists, draft: Draft, here: Tensor, host: Tensor, guest: Tensor, kept: Tensor) -> None:
        hosts, guests = grouped(here[kept] * draft.slots + host[kept], guest[kept], GUESTS)
        apart, kin = (self._ahead_of, None) if lists is self.ahead else (self._apart, self._kin(draft))
        lists.offer(hosts // draft.slots, hosts % draft.slots, guests, apart, kin)

    def _reach(self, lane: Tensor, slot: Tensor) -> Tensor:
        """float32[P]: distance of the last in the list of (lane, slot); infinite where there is room."""
        assert self.ahead is not None
        last = self.ahead.index[lane, slot, -1].to(torch.int64)
        far = self._ahead_of(lane, slot, last.clamp_min(0)[:, None])[:, 0]
        return far.masked_fill(last < 0, torch.inf)

    def _ahead_of(self, lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return self.states.apart("next_obs", lane, slot, others)

    def _apart(self, lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        """As the rule measures it; infinite beyond ε or between what it does not compare."""
        memory, states, raw = self.memory, self.states, self.memory.params.raw_distance
        far, mine = states.apart("obs", lane, slot, others, raw), lane[:, None]
        if memory.discrete:
            unlike = states.column("action", mine, slot[:, None]) != states.column("action", mine, others)
            far = far + unlike * 2**0.5 if self.rule == "exists" else far.masked_fill(unlike, torch.inf)
        else:
            actions = states.actions_apart(lane, slot, others, raw)
            far = far + actions if self.rule == "exists" else torch.maximum(far, actions)
        if memory.spec.context and self.rule != "exists":
            other = states.column("context", mine, slot[:, None]) != states.column("context", mine, others)
            far = far.masked_fill(other, torch.inf)
        return far.masked_fill(far > self.epsilon[lane], torch.inf)

    def _kin(self, draft: Draft) -> interference.Kind | None:
        """Which of two kinds others belong to, where the rule weighs the one against the other."""
        return interference.kinds(self.rule, draft.birth, draft.phase)

    def _measure(self, draft: Draft) -> None:
        """ε: as given, or from what is stored."""
        params, memory = self.memory.params, self.memory
        if self.alike is None:
            return
        if params.epsilon is not None:
            self.epsilon = memory.lane_value("epsilon").to(torch.float32)
            return
        counting = draft.phase == LIQUID if self.rule != "exists" else draft.occupied
        step = -(-draft.slots // interference.SAMPLED)
        sampled = torch.arange(draft.slots, device=counting.device) % step == 0
        first, rest = padded(counting & sampled), padded(counting & ~sampled)
        slots, real = torch.cat([first[0], rest[0]], 1), torch.cat([first[1], rest[1]], 1)
        lane = torch.arange(memory.lanes, device=slots.device)[:, None].expand_as(slots)
        state = self.states.vectors("obs", slots)
        if params.raw_distance:
            state = state * self.states.deviation
        if self.rule == "exists":
            self.epsilon = neighbours.median_spacing(state, real)
            return
        action = self.states.actions(lane, slots)
        if not (memory.discrete or params.raw_distance):
            action = action / self.states.action_deviation
        context = self.states.column("context", lane, slots) if memory.spec.context else None
        phase = real.to(torch.uint8)
        scene = Scene(state, action, state[..., 0], slots, phase, context, memory.discrete)
        self.epsilon = interference.spacing(scene, params.k, 1, first[0].shape[1])

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.states.nbytes + sum(lists.nbytes for lists in self._lists)
