"""One lane of a crystal memory: what it stores, draws and consolidates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crystalrl.params import CrystalParams
from crystalrl.random import Stream
from tests.reference import Experience, Step, Windows, uniforms
from tests.reference_crystal.interference import back_up, contradicted
from tests.reference_crystal.item import (
    CRYSTAL,
    LIQUID,
    Item,
    Items,
    Near,
    Rounded,
    exact,
    f32,
    neighbours,
    numbers_of,
    spread,
)
from tests.reference_crystal.law import rates, stepped
from tests.reference_crystal.phases import evict, move, risen
from tests.reference_crystal.replay import base_weight, draw, draw_weight
from tests.reference_crystal.utility import Grid, pseudo_counts, random_neighbours, scaled_errors, utility_of


class CrystalTwin:
    """One lane."""

    def __init__(
        self,
        capacity: int,
        seed: int,
        params: CrystalParams,
        kappa: dict[str, float],
        envs: int = 1,
        n_step: int = 1,
        gamma: float = 0.99,
    ) -> None:
        self.capacity, self.seed, self.p, self.kappa = capacity, seed, params, kappa
        self.n_step, self.gamma = n_step, gamma
        self.windows = [Windows(n_step, gamma) for _ in range(envs)]
        self._forget_episodes(envs)
        self.slots: Items = {}
        self.grid = Grid(capacity, params)
        self.number = self.time = self.consolidations = self.tick = 0
        self.highest = self.unit = 1.0
        self.ended = False

    # Storing

    def writable(self) -> list[int]:
        """Slots that may be written, in the order in which they are overwritten."""
        free = [s for s in range(self.capacity) if s not in self.slots]
        liquid = [s for s, e in self.slots.items() if e.phase == LIQUID and not e.pinned]
        known = sorted(
            (s for s in liquid if self.slots[s].evaluated), key=lambda s: (self.slots[s].utility, self.slots[s].birth)
        )
        fresh = sorted((s for s in liquid if not self.slots[s].evaluated), key=lambda s: self.slots[s].birth)
        return free + known + fresh

    def has_room(self) -> bool:
        return len(self.writable()) >= len(self.windows) * self.n_step

    def add(self, steps: list[Step], valid: list[bool], c: list[float]) -> list[list[int]]:
        self.time += sum(valid)
        closed = [w.push(s) if ok else [] for w, s, ok in zip(self.windows, steps, valid, strict=True)]
        self.ended |= any(step.terminated or step.truncated for step in steps)
        slots = self._keep(closed, c)
        for env, step in enumerate(steps):
            if valid[env]:
                self.rewards[env].append(float(f32(step.reward)))
                self.largest = max(self.largest, abs(self.rewards[env][-1]))
        for env, step in enumerate(steps):
            if valid[env] and (step.terminated or step.truncated):
                self._boost(env, self._return(env), self.started[env])
                self._next_episode(env)
        return slots

    def _return(self, env: int) -> float:
        return sum(self.gamma**t * reward for t, reward in enumerate(self.rewards[env]))

    def _boost(self, env: int, value: float, first: float) -> None:
        largest = max(self.largest, 1e-12) / (1 - self.gamma)
        for item in self.slots.values():
            if self.p.boost and item.env == env and item.birth >= first:
                item.boost = min(max(value / largest, 0.0), 1.0)

    def _next_episode(self, env: int) -> None:
        if self.rewards[env]:
            self.previous[env] = self.started[env]
        self.started[env], self.rewards[env] = self.number, []

    def end_episode(self, ended: list[bool], returns: list[float] | None) -> list[list[int]]:
        closed = [w.flush() if over else [] for w, over in zip(self.windows, ended, strict=True)]
        slots = self._keep(closed, [0.0] * len(ended))
        for env in (env for env, over in enumerate(ended) if over):
            if returns is not None:
                self._boost(env, returns[env], self.started[env] if self.rewards[env] else self.previous[env])
            elif self.rewards[env]:
                self._boost(env, self._return(env), self.started[env])
            self._next_episode(env)
        self.ended |= any(ended)
        return slots

    def _keep(self, closed: list[list[Experience]], c: list[float]) -> list[list[int]]:
        out = []
        for env, experiences in enumerate(closed):
            slots = []
            for data in experiences:
                slot = self.writable()[0]
                item = Item(data, self.number, self._clock(), env, c=float(f32(c[env])), base=self.highest)
                item.phase = risen(LIQUID, item.c, self.p)
                item.held = 0.0 if self.p.practice else item.c
                self.slots[slot] = item
                self.number += 1
                slots.append(slot)
            out.append(slots + [-1] * (self.n_step - len(slots)))
        return out

    def _clock(self) -> int:
        return self.consolidations if self.p.clock == "calls" else self.time

    def pin(self, slots: list[int], pinned: bool) -> None:
        for slot in slots:
            self.slots[slot].pinned = pinned

    def clear(self) -> None:
        """Forget the experiences and what was learnt about them; clock, number and random streams continue."""
        self.slots = {}
        self.grid.clear()
        self.highest, self.unit, self.ended = 1.0, 1.0, False
        self._forget_episodes(len(self.windows))
        for window in self.windows:
            window.open = []

    def _forget_episodes(self, envs: int) -> None:
        self.started, self.previous = [0] * envs, [math.inf] * envs
        self.rewards: list[list[float]] = [[] for _ in range(envs)]
        self.largest = 0.0

    # Replaying (Algorithm 2)

    def weight(self, item: Item) -> float:
        return draw_weight(item)

    def sample(self, size: int) -> tuple[list[int], list[float]]:
        numbers = uniforms(self.seed, Stream.DRAW, self.tick, size)
        self.tick += 1
        return draw(self.slots, self.p, numbers, self.time)

    def strength(self, name: str, slot: int) -> float:
        item = self.slots[slot]
        unit = self.unit if name == "policy" else 1.0
        return unit * self.kappa[name] * item.held**self.p.anchor_power if item.evaluated else 0.0

    def ticket(self, slots: list[int]) -> list[Item]:
        """What the slots hold now: the twin of a batch's ticket."""
        return [self.slots[slot] for slot in slots]

    def update(self, slots: list[int], td_errors: list[float], ticket: list[Item] | None = None) -> None:
        """Skips a slot whose experience is no longer the one that was drawn."""
        for slot, td_error, item in zip(slots, td_errors, ticket or self.ticket(slots), strict=True):
            if self.slots.get(slot) is item:
                item.error = float(f32(abs(td_error)))
                self._rebase(item)

    def _rebase(self, item: Item) -> None:
        item.base = base_weight(item.error, self.p)
        self.highest = max(self.highest, item.base)

    # Consolidating (Algorithm 1)

    def consolidate(self, critic: Any, rounded: Rounded = exact) -> None:
        """`critic(item)` gives |δ|, {anchor: output} and what is at stake; `rounded` gives a utility or c as it is
        stored."""
        if self.slots:
            chosen = [s for s, e in sorted(self.slots.items()) if self._turn(s) or not e.evaluated]
            output, stake = {}, []
            for slot in chosen:
                self.slots[slot].error, output[slot], at_stake = critic(self.slots[slot])
                stake.append(at_stake)
            if chosen:
                self.unit = math.sqrt(sum(x * x for x in stake) / len(stake))
            near = neighbours(self.slots, self.p)
            self._value(chosen, near, rounded)
            flagged = contradicted(self.slots, self.p)
            back_up(self.slots, flagged, near, self.p)
            new = {s for s, e in self.slots.items() if not e.evaluated}
            practised = self._practised(near, new)
            self._crystallize(chosen, output, practised, rounded)
            for slot, item in self.slots.items():
                item.held = 0.0 if slot in practised else item.c
            self._move(flagged, new)
            for item in self.slots.values():
                self._rebase(item)
        self.consolidations += 1
        self.ended = False

    def _turn(self, slot: int) -> bool:
        return slot % self.p.slices == self.consolidations % self.p.slices

    def _value(self, chosen: list[int], near: Near, rounded: Rounded) -> None:
        scaled = scaled_errors(self.slots, self.p)
        visits = self.grid.visits(self.slots)
        if self.p.novelty == "knn" or (self.p.novelty == "auto" and self.grid.useless()):
            visits = pseudo_counts(self.slots, near, self.p)
        overall = sum(scaled.values()) / len(scaled)
        if self.p.downstream == "random":
            near = random_neighbours(self.slots, self.p, self.capacity, self.seed, self.consolidations)
        for slot in chosen:
            item, around = self.slots[slot], [scaled[j] for j in near[slot]]
            downstream = sum(around) / len(around) if around else overall
            item.utility = rounded("utility", slot, utility_of(item, scaled[slot], downstream, visits[slot], self.p))

    def _practised(self, near: Near, fresh: set[int]) -> set[int]:
        """Fresh, or one of the few nearest to the successor state is fresh and of the same context; never pinned."""
        context = {slot: item.data.context for slot, item in self.slots.items()}
        around = {s: fresh & {j for j in near[s][: self.p.practice] if context[j] == context[s]} for s in near}
        free = [s for s, item in self.slots.items() if self.p.practice and not item.pinned]
        return {s for s in free if s in fresh or around[s]}

    def _crystallize(
        self, chosen: list[int], output: dict[int, dict[str, np.ndarray]], practised: set[int], rounded: Rounded
    ) -> None:
        calls = self.p.clock == "calls"
        now = self.consolidations + 1 if calls else self.time
        spreads = {
            name: spread(np.array([output[s][name] for s in chosen], dtype=np.float64)).mean()
            for name in (self.kappa if chosen else ())
        }
        for slot in chosen:
            item = self.slots[slot]
            dt = (now - item.updated) * self.p.delta_t if calls else (now - item.updated) / self.p.unit(self.capacity)
            rate = rates(item, self._settled(item, output[slot], spreads), self.p)
            item.c = float(f32(stepped(item, rate, dt, self.p, (self.seed, self.consolidations, slot))))
            item.c = rounded("c", slot, item.c)
            item.updated = now
            self._follow(item, output[slot], math.inf if slot in practised else dt)
            item.evaluated = True

    def _settled(self, item: Item, output: dict[str, np.ndarray], spreads: dict[str, float]) -> float:
        if self.p.settle is None or not item.evaluated or not self.kappa:
            return 1.0
        drifts = [np.abs(output[n] - item.anchors[n]).mean() / spreads[n] for n in self.kappa]
        return math.exp(-sum(drifts) / len(drifts) / self.p.settle)

    def _follow(self, item: Item, output: dict[str, np.ndarray], dt: float) -> None:
        follow = 1.0 if math.isinf(dt) else 1 - (item.c * (2 - item.c)) ** dt
        for name in self.kappa:
            old, new = item.anchors.get(name), output[name]
            item.anchors[name] = new if not item.evaluated or old is None else old + follow * (new - old)

    def _move(self, flagged: set[int], new: set[int]) -> None:
        old = {s: e.phase for s, e in self.slots.items()}
        move(self.slots, self.capacity, self.p)
        keys = numbers_of(self.seed, Stream.KEY, self.consolidations, self.capacity)
        for slot, item in self.slots.items():
            if item.phase == CRYSTAL and (old[slot] != CRYSTAL or slot in new):
                item.key = float(f32(keys[slot]))
        evict(self.slots, flagged, self.capacity, self.p)
