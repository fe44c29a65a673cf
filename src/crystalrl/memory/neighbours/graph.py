"""Surroundings from kept lists: what a consolidation needs to know about who is near whom, in O(N)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.memory.crystal import interference
from crystalrl.memory.crystal.snapshot import Draft, padded
from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.memory.neighbours import index as search
from crystalrl.memory.neighbours.epsilon import spacing_of
from crystalrl.memory.neighbours.index import Brute, Ivf, Search
from crystalrl.memory.neighbours.lists import Lists, grouped
from crystalrl.memory.neighbours.neighbourhood import Surroundings, needs_near, reward_spread
from crystalrl.memory.neighbours.states import States
from crystalrl.memory.neighbours.steps import Steps

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

SPARE = 2
"""Neighbours of a successor state listed beyond k, so that not every loss calls for others."""
ALIKE = 10
"""Experiences within ε that a list names."""
ASKED = 64
"""States among which those are looked for."""
AT_LEAST, AT_MOST = 1024, 1 << 14
"""Half as many lists as there are new experiences are renewed in turn; their number counts as between these bounds."""
POOR = {"cpu": 4, "cuda": 1}
"""Of the lists that name fewer than k, so many times the number of new experiences are renewed at most, the shortest
first."""
HINTS = 10
"""Neighbours through whose company a newcomer finds the lists it belongs to."""
ASK_ALL = 1 << 16
"""Where more than so many are new at once (after a load, above all), their lists start from the steps before and after,
and ask the index in turn."""
SPACING_EVERY = 1 << 16
"""ε is measured in every n-th consolidation of n·65,536 slots."""
GUESTS = 8


class Vicinity:
    """Kept lists of lanes that hold much, and the index they are mended from. Thrown away, it is built anew, but not
    the same: lists remember what they were asked."""

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
        self.built_for = torch.zeros(lanes, dtype=torch.int64, device=device)
        """Experiences that each lane held when its index was built; 0: not yet."""
        self.since = torch.zeros_like(self.built_for)
        """Experiences that have come since."""
        self.held = torch.zeros(lanes, dtype=torch.bool)
        """Lanes that keep lists, on CPU."""
        self.visited = torch.zeros(lanes, 0, dtype=torch.bool, device=device)
        """Slots that have a new experience within ε, of the consolidation under way."""

    def look(self, memory: CrystalMemory, draft: Draft, many: Tensor) -> Surroundings:
        """Mend the lists of the lanes bool[L] (on CPU), and read from them; the lists of others are given up.

        memory: the one it was built for, or its frozen image.
        """
        self.memory = self.states.memory = memory
        self._give_up(self.held & ~many)
        self.held = many
        draft = draft.of(many, draft.slots)
        self.visited = torch.zeros_like(draft.occupied)
        self._follow(draft)
        near = None
        if self.ahead is not None:
            index = self.ahead.index[:, : draft.slots, : self.memory.params.k]
            near = neighbours.Near(index.clamp_min(0), index >= 0)
        if self.alike is None:
            nothing = torch.zeros(self.memory.lanes, 1, device=self.memory.device)
            return Surroundings(near, torch.zeros_like(draft.occupied), nothing, nothing)
        delta_r = reward_spread(self.memory, draft)
        lists, reward = self.alike.index[:, : draft.slots], draft.fields["reward"]
        state = (reward, draft.birth, draft.phase, draft.fresh, delta_r, self.visited)
        flagged = interference.listed(self.rule, lists, *state)
        return Surroundings(near, flagged, self.epsilon, delta_r)

    def _give_up(self, lanes: Tensor) -> None:
        for lane in lanes.nonzero()[:, 0].tolist():
            self.built_for[lane] = self.since[lane] = 0
            self.epsilon[lane] = 0
            for lists in self._lists:
                lists.index[lane] = -1

    def _follow(self, draft: Draft) -> None:
        """Bring index and lists of the lanes that are due up to date with the draft."""
        occupied, first = draft.occupied & draft.lane, (self.built_for == 0)[:, None]
        gone, new = (draft.fresh | ~draft.occupied) & draft.lane, draft.fresh | (occupied & first)
        count = occupied.sum(-1)
        for lists in self._lists:
            lists.forget(gone, draft.slots)
        turn, poor = self._again(draft, new)
        asking = new & (new.sum(-1, keepdim=True) <= ASK_ALL)
        slots, real = padded(new)
        self.states.take(slots, real)
        self.since = self.since + new.sum(-1)
        stale = (count >= 2 * self.built_for) | (self.since >= count) | self.states.off(draft)
        stale = stale & (count > 0)
        width = draft.width.to(count.device)
        due = stale | (draft.lane[:, 0] & (draft.turns % (width // SPACING_EVERY).clamp_min(1) == 0))
        off, spacing = torch.stack([stale, due]).cpu()  # one wait for the device
        if bool(off.any()):
            self.states.fit(draft, stale)
            self.index.build(draft.occupied, stale, lambda some: self.states.vectors("obs", some))
            self.built_for = torch.where(stale, count, self.built_for)
            self.since = torch.where(stale, 0, self.since)
        if not bool(off.all()):
            held = real & ~stale[:, None]
            self.index.replace(gone & ~stale[:, None], slots, held, self.states.vectors("obs", slots))
        if self.alike is not None and bool(spacing.any()):
            self.epsilon = torch.where(due[:, None], spacing_of(self.states, draft), self.epsilon)
        steps = Steps(draft, self.memory.spec.envs)
        self._offer_steps(draft, new & ~asking, steps)
        if self.ahead is not None and isinstance(self.index, search.Ivf) and backend_for(count.device).graph:
            self._through_company(draft, asking, (turn, poor), steps)
        else:
            self._introduce(draft, self._ask(draft, asking | turn | poor, steps))

    @property
    def _lists(self) -> list[Lists]:
        return [lists for lists in (self.ahead, self.alike) if lists is not None]

    def _again(self, draft: Draft, new: Tensor) -> tuple[Tensor, Tensor]:
        """bool[L, W] each: lists that are renewed because it is their turn, and those that have lost most."""
        budget = draft.fresh.sum(-1, keepdim=True).clamp(AT_LEAST, AT_MOST)
        period = (2 * draft.width.to(budget.device)[:, None] // budget).clamp_min(1)
        number = torch.arange(draft.slots, device=draft.phase.device)
        there = draft.occupied & draft.lane & ~new
        turn = there & (number % period == draft.turns[:, None] % period)
        if self.ahead is None:
            return turn, torch.zeros_like(turn)
        length = self.ahead.lengths(draft.slots)
        poor = there & ~turn & (length < self.memory.params.k)
        shortest = length.masked_fill(~poor, self.ahead.k).to(torch.uint8).argsort(dim=1, stable=True)
        first = torch.zeros_like(poor).scatter_(1, shortest, number < POOR[number.device.type] * budget)
        return turn, poor & first

    def _offer_steps(self, draft: Draft, new: Tensor, steps: Steps) -> None:
        """Fill the lists of new ones that do not ask the index."""
        lane, slot = new.nonzero(as_tuple=True)
        for part in torch.arange(len(slot), device=slot.device).split(1 << 16):
            nearby = steps.nearby(lane[part], slot[part])
            if self.ahead is not None:
                self.ahead.offer(lane[part], slot[part], nearby, self._ahead_of)
            if self.alike is not None:
                self.alike.offer(lane[part], slot[part], nearby, self._apart, self._kin(draft))

    def _through_company(self, draft: Draft, new: Tensor, again: tuple[Tensor, Tensor], steps: Steps) -> None:
        """New ones ask the index; lists that are renewed look at their members' company."""
        from crystalrl.memory.neighbours.refine import Company

        assert self.ahead is not None
        assert isinstance(self.index, search.Ivf)
        for lane in draft.due.nonzero()[:, 0].tolist():
            company = Company(self.ahead, self.states, self.index, steps, lane, int(draft.turns[lane]))
            slots, turn, poor = (mask[lane].nonzero()[:, 0] for mask in (new, *again))
            close = company.admit(slots)
            company.introduce(slots, close)
            company.renew(torch.cat([turn, poor]))
            if self.alike is not None:
                around = company.around(turn, self.alike.index[lane, turn].numpy())
                guests = torch.from_numpy(np.concatenate([close, around])).to(torch.int64)
                both = torch.cat([slots, turn])
                self.alike.offer(torch.full_like(both, lane), both, guests, self._apart, self._kin(draft))
                self._greet(draft, torch.full_like(slots, lane), slots, guests[: len(slots)])

    def _ask(self, draft: Draft, asking: Tensor, steps: Steps) -> tuple[Tensor, Tensor, Tensor]:
        """Let lists ask the index; lane int64[P] and slot int64[P] of those that are fresh, and states near [P, T]."""
        slots, real = padded(asking)
        close = []
        for part in torch.arange(slots.shape[1], device=slots.device).split(1 << 14):
            some, exist = slots[:, part], real[:, part]
            lane, slot = exist.nonzero()[:, 0], some[exist]
            nearby = steps.nearby(lane, slot)
            if self.ahead is not None:
                found = self.index.search(self.states.vectors("next_obs", some), exist, self.ahead.k + 3)
                self.ahead.offer(lane, slot, torch.cat([found[exist], nearby], -1), self._ahead_of)
            found = self.index.search(self.states.vectors("obs", some), exist, ASKED)
            if self.alike is not None:
                self.alike.offer(lane, slot, torch.cat([found[exist], nearby], -1), self._apart, self._kin(draft))
            fresh = draft.fresh[lane, slot]
            close.append((lane[fresh], slot[fresh], found[exist][fresh]))
        lane, slot, near = (torch.cat(each) for each in zip(*close, strict=True))
        return lane, slot, near

    def _introduce(self, draft: Draft, close: tuple[Tensor, Tensor, Tensor]) -> None:
        """Offer the fresh to the lists of others. close: lane and slot int64[P], and states near int64[P, T]."""
        lane, slot, near = close
        if not len(slot):
            return
        if self.ahead is not None:
            for here, host, guest in self.ahead.hosts(lane, slot, near[:, : HINTS + 1], draft.slots):
                far = self._ahead_of(here, host, guest[:, None])[:, 0]
                self._welcome(self.ahead, draft, here, host, guest, far < self._reach(here, host))
        if self.alike is not None:
            self._greet(draft, lane, slot, near)

    def _greet(self, draft: Draft, lane: Tensor, slot: Tensor, near: Tensor) -> None:
        """Whom I am like is like me: offer (lane, slot) [P] to the lists of those near int64[P, T] within ε."""
        assert self.alike is not None
        pairs = []
        for part in torch.arange(len(slot), device=slot.device).split(self.alike.at_once // near.shape[1]):
            others = near[part]
            within = self._apart(lane[part], slot[part], others.clamp_min(0))
            within = torch.isfinite(within) & (others >= 0) & (others != slot[part, None])
            row, column = within.nonzero(as_tuple=True)
            pairs.append((lane[part][row] * draft.slots + others[row, column], slot[part][row]))
        host, guest = (torch.cat(each) for each in zip(*pairs, strict=True)) if pairs else (slot, slot)
        self.visited.view(-1)[host] = True
        host, order = host.sort(stable=True)
        everyone = torch.ones_like(host, dtype=torch.bool)
        self._welcome(self.alike, draft, host // draft.slots, host % draft.slots, guest[order], everyone)

    def _welcome(self, lists: Lists, draft: Draft, here: Tensor, host: Tensor, guest: Tensor, kept: Tensor) -> None:
        hosts, guests = grouped(here[kept] * draft.slots + host[kept], guest[kept], GUESTS)
        apart, kin = (self._ahead_of, None) if lists is self.ahead else (self._apart, self._kin(draft))
        lists.offer(hosts // draft.slots, hosts % draft.slots, guests, apart, kin)

    def _reach(self, lane: Tensor, slot: Tensor) -> Tensor:
        """float32[P]: distance of the last in the list of (lane, slot); infinite where there is none. What is farther
        is not taken, even if there is room: so a list names the nearest, and its length says when to look for more."""
        assert self.ahead is not None
        names = self.ahead.index[lane, slot].to(torch.int64)
        count = (names >= 0).sum(-1, keepdim=True)
        far = self._ahead_of(lane, slot, names.gather(1, (count - 1).clamp_min(0)).clamp_min(0))
        return far.masked_fill(count == 0, torch.inf)[:, 0]

    def _ahead_of(self, lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return self.states.apart("next_obs", lane, slot, others)

    def to_states(self, other: Tensor) -> Tensor:
        """float32[L, W]: distance of each successor state to the state of slot other int64[L, W]; where lists are."""
        lanes, width = other.shape
        far = torch.empty(lanes * width, device=other.device)
        for part in torch.arange(lanes * width, device=other.device).split(1 << 17):
            far[part] = self._ahead_of(part // width, part % width, other.flatten()[part, None])[:, 0]
        return far.view(lanes, width)

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

    @property
    def list_bytes(self) -> int:
        return sum(lists.nbytes for lists in self._lists)

    @property
    def nbytes(self) -> int:
        """Lists, and the vectors of the index and of states that are not compared as stored."""
        return self.list_bytes + self.index.nbytes + self.states.nbytes
