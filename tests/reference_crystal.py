"""The crystal memory again, from the specification: one Python object per experience, plain loops, nothing clever.

Algorithm 1 (consolidation) and Algorithm 2 (phase-aware draws) of the paper with the choices of `CrystalParams`. The
twin shares with the library only the pure functions that hash integers into random numbers. Every lane is a twin of
its own, so lanes that mix show up as a difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from crystalrl.backends.splitmix import mix_int, signed
from crystalrl.params import CrystalParams
from crystalrl.random import Stream, beta_variates, lane_key, start_of
from tests.reference import GOLDEN, Experience, Step, Windows, uniforms, unit

LIQUID, GLASS, CRYSTAL = "liquid", "glass", "crystal"
ORDER = (LIQUID, GLASS, CRYSTAL)
TINY = 1e-6
f32 = np.float32


@dataclass(eq=False)
class Item:
    """An experience and all the memory knows of it."""

    data: Experience
    birth: int
    updated: int
    env: int
    c: float = 0.0
    phase: str = LIQUID
    utility: float = 0.0
    error: float = 0.0
    interference: float = 0.0
    key: float = 0.0
    streak: int = 0
    evaluated: bool = False
    pinned: bool = False
    boost: float = 0.0
    base: float = 1.0
    anchors: dict[str, np.ndarray] = field(default_factory=dict)


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
        self.slots: dict[int, Item] = {}
        self.cells: dict[int, int] = {}
        self.grid: tuple[np.ndarray, np.ndarray] | None = None
        self.number = self.time = self.turns = self.tick = 0
        self.highest = 1.0
        self.ended = False

    # Storing

    def writable(self) -> list[int]:
        """Slots that may be written, the first to go first."""
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
                item.phase = self._risen(LIQUID, item.c)
                self.slots[slot] = item
                self.number += 1
                slots.append(slot)
            out.append(slots + [-1] * (self.n_step - len(slots)))
        return out

    def _clock(self) -> int:
        return self.turns if self.p.clock == "calls" else self.time

    def _risen(self, phase: str, c: float) -> str:
        if not self.p.phases:
            return LIQUID
        if phase == LIQUID and c > f32(self.p.tau_L):
            phase = GLASS
        return CRYSTAL if phase == GLASS and c > f32(self.p.tau_C) else phase

    def pin(self, slots: list[int], pinned: bool) -> None:
        for slot in slots:
            self.slots[slot].pinned = pinned

    def clear(self) -> None:
        """Experiences and what was learnt of them go; clock, number and random streams go on."""
        self.slots, self.cells, self.grid = {}, {}, None
        self.highest, self.ended = 1.0, False
        self._forget_episodes(len(self.windows))
        for window in self.windows:
            window.open = []

    def _forget_episodes(self, envs: int) -> None:
        self.started, self.previous = [0] * envs, [math.inf] * envs
        self.rewards: list[list[float]] = [[] for _ in range(envs)]
        self.largest = 0.0

    # Replaying (Algorithm 2)

    def weight(self, item: Item) -> float:
        if item.phase == CRYSTAL:
            value = item.c
        elif item.phase == GLASS:
            value = item.base * math.sqrt(item.c)
        else:
            value = item.base
        return float(f32(max(value, TINY)))

    def quota(self, size: int) -> dict[str, int]:
        present = [phase for phase in ORDER if any(e.phase == phase for e in self.slots.values())]
        shares = dict(zip(ORDER, self.p.batch, strict=True))
        if self.p.split == "floor":
            places = {GLASS: math.floor(shares[GLASS] * size + 1e-9), CRYSTAL: math.ceil(shares[CRYSTAL] * size - 1e-9)}
            places = {phase: places.get(phase, 0) if phase in present else 0 for phase in ORDER}
            places[present[0]] += size - sum(places.values())
            return places
        if sum(shares[phase] for phase in present) == 0:
            shares = dict.fromkeys(ORDER, 1.0)
        whole = sum(shares[phase] for phase in present)
        exact = {phase: shares[phase] / whole * size if phase in present else 0.0 for phase in ORDER}
        if self.p.draws_per_experience is not None:
            held = {phase: sum(e.phase == phase for e in self.slots.values()) for phase in ORDER}
            exact = bounded(exact, {phase: self.p.draws_per_experience * held[phase] for phase in ORDER}, size)
        places = {phase: math.floor(value + 1e-9) for phase, value in exact.items()}
        by_remainder = sorted(ORDER, key=lambda phase: (round(places[phase] - exact[phase], 9), ORDER.index(phase)))
        for phase in by_remainder[: size - sum(places.values())]:
            places[phase] += 1
        return places

    def sample(self, size: int) -> tuple[list[int], list[float]]:
        numbers = uniforms(self.seed, Stream.DRAW, self.tick, size)
        self.tick += 1
        places = self.quota(size)
        strata = [phase for phase in ORDER for _ in range(places[phase])]
        slots, importance = [], []
        exponent = self.p.is_exponent
        if self.p.is_steps is not None:
            exponent += (1 - exponent) * min(1.0, self.time / self.p.is_steps)
        for u, phase in zip(numbers, strata, strict=True):
            whole = len(self.slots) * places[phase] / size if self.p.importance == "memory" else None
            members = [s for s in sorted(self.slots) if self.slots[s].phase == phase]
            weights = [self.weight(self.slots[s]) for s in members]
            total, passed, at = math.fsum(weights), weights[0], 0
            while u * total >= passed:
                at += 1
                passed += weights[at]
            slot, weight = members[at], weights[at]
            slots.append(slot)
            importance.append(((whole or len(members)) * weight / total) ** -exponent)
        gate = [max((1 - self.slots[s].c) ** self.p.gate, self.p.w_min) for s in slots]
        return slots, [w / max(importance) * g for w, g in zip(importance, gate, strict=True)]

    def strength(self, name: str, slot: int) -> float:
        item = self.slots[slot]
        return self.kappa[name] * item.c**self.p.anchor_power if item.evaluated else 0.0

    def ticket(self, slots: list[int]) -> list[Item]:
        """What the slots hold now: the twin of a batch's ticket."""
        return [self.slots[slot] for slot in slots]

    def update(self, slots: list[int], td_errors: list[float], ticket: list[Item] | None = None) -> None:
        """Skips a slot whose experience is no longer the one that was drawn."""
        for slot, td_error, item in zip(slots, td_errors, ticket or self.ticket(slots), strict=True):
            if self.slots.get(slot) is item:
                item.error = float(f32(abs(td_error)))
                item.base = self._base(item.error)
                self.highest = max(self.highest, item.base)

    def _base(self, error: float) -> float:
        return float(f32((error + TINY) ** self.p.nu))

    # Consolidating (Algorithm 1)

    def consolidate(self, critic: Any) -> None:
        """`critic(item)` gives |δ| and {anchor: output}."""
        if self.slots:
            chosen = [s for s, e in sorted(self.slots.items()) if self._turn(s) or not e.evaluated]
            output = {}
            for slot in chosen:
                self.slots[slot].error, output[slot] = critic(self.slots[slot])
            near = self._neighbours()
            self._value(chosen, near)
            flagged = self._contradicted()
            self._back_up(flagged, near)
            new = {s for s, e in self.slots.items() if not e.evaluated}
            self._crystallize(chosen, output)
            self._move(flagged, new)
            for item in self.slots.values():
                item.base = self._base(item.error)
                self.highest = max(self.highest, item.base)
        self.turns += 1
        self.ended = False

    def _turn(self, slot: int) -> bool:
        return slot % self.p.slices == self.turns % self.p.slices

    def _states(self) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """States and successor states as they are compared."""
        if self.p.raw_distance:
            return (
                {s: e.data.obs for s, e in self.slots.items()},
                {s: e.data.next_obs for s, e in self.slots.items()},
            )
        states = np.array([e.data.obs for e in self.slots.values()], dtype=np.float64)
        mean, deviation = states.mean(0), _spread(states)
        return (
            {s: (e.data.obs - mean) / deviation for s, e in self.slots.items()},
            {s: (e.data.next_obs - mean) / deviation for s, e in self.slots.items()},
        )

    def _neighbours(self) -> dict[int, list[int]]:
        """For each experience the others whose state is nearest to its successor state, nearest first."""
        state, successor = self._states()
        near = {}
        for i in self.slots:
            others = sorted((j for j in self.slots if j != i), key=lambda j: float(_distance(successor[i], state[j])))
            near[i] = others[: self.p.k]
        return near

    def scaled_errors(self) -> dict[int, float]:
        errors = {s: e.error for s, e in self.slots.items()}
        if self.p.scale == "raw":
            return errors
        if self.p.scale == "q95":
            scale = float(np.quantile(list(errors.values()), 0.95))
            return {s: min(x / scale, 1.0) if scale > 0 else float(x > 0) for s, x in errors.items()}
        positive = [x for x in errors.values() if x > 0]
        scale = float(np.median(positive)) if positive else 0.0
        return {s: x / (x + scale) if x > 0 else 0.0 for s, x in errors.items()}

    def _value(self, chosen: list[int], near: dict[int, list[int]]) -> None:
        scaled = self.scaled_errors()
        visits = self._visits()
        if self.p.novelty == "knn" or (self.p.novelty == "auto" and self._grid_is_useless()):
            visits = self._pseudo_counts(near)
        overall = sum(scaled.values()) / len(scaled)
        if self.p.downstream == "random":
            near = self._random_neighbours()
        for slot in chosen:
            item = self.slots[slot]
            around = [scaled[j] for j in near[slot]]
            downstream = sum(around) / len(around) if around else overall
            utility = self.p.w1 * scaled[slot] + self.p.w3 * downstream
            utility += self.p.w2 * math.exp(-visits[slot] / self.p.Z)
            utility /= max(1.0, self.p.w1 + self.p.w2 + self.p.w3)
            if self.p.boost:
                utility += item.boost
            item.utility = min(max(utility, 0.0), 1.0)

    def _random_neighbours(self) -> dict[int, list[int]]:
        numbers = self._random(Stream.NEIGHBOURS, self.capacity * self.p.k)
        picks = [int(u * self.capacity) for u in numbers]
        return {s: [j for j in picks[s * self.p.k : (s + 1) * self.p.k] if j in self.slots] for s in self.slots}

    def _random(self, stream: Stream, size: int) -> list[float]:
        start = mix_int(lane_key(self.seed, stream) + (self.turns + 1) * GOLDEN)
        return [unit(start, element) for element in range(size)]

    def _visits(self) -> dict[int, Any]:
        """Visits of each experience's cell, those of the experiences that are new to this consolidation counted in."""
        fresh = [e for e in self.slots.values() if not e.evaluated]
        if self.grid is None and fresh:
            vectors = np.array([_vector(e) for e in fresh], dtype=np.float64)
            self.grid = f32(vectors.mean(0)), f32(_spread(vectors))
        for item in fresh:
            entry = self._entry(item)
            self.cells[entry] = self.cells.get(entry, 0) + 1
        return {s: self.cells[self._entry(e)] for s, e in self.slots.items()}

    def _grid_is_useless(self) -> bool:
        """Whether visits lie on the table like rain (variance ≤ 1.2 means, full entries cut); from a thousand on."""
        entered, entries = sum(self.cells.values()), self._entries()
        rain = entered / entries
        seen = np.array([min(n, rain + 3 * math.sqrt(rain) + 1) for n in self.cells.values()])
        mean = seen.sum() / entries
        return entered >= 1000 and bool((seen**2).sum() / entries - mean**2 <= 1.2 * mean)

    def _pseudo_counts(self, near: dict[int, list[int]]) -> dict[int, float]:
        """1 + k·(median distance to the k-th nearest state)/(my distance to it), measured from the successor state."""
        state, successor = self._states()
        far = {s: float(_distance(successor[s], state[others[-1]])) for s, others in near.items() if others}
        typical = float(np.median(list(far.values()))) if far else 0.0
        counts = dict.fromkeys(self.slots, 1.0)
        for slot, distance in far.items():
            ratio = typical / distance if distance > 0 else math.inf if typical > 0 else 1.0
            counts[slot] += len(near[slot]) * ratio
        return counts

    def _entries(self) -> int:
        return max(1024, 1 << (2 * self.capacity - 1).bit_length())

    def _entry(self, item: Item) -> int:
        """Entry of the table that the experience's cell shares with those whose hash agrees."""
        assert self.grid is not None
        centre, deviation = self.grid
        place = np.floor((f32(_vector(item)) - centre) / deviation / f32(self.p.cell)).astype(int)
        extra = item.data.action if isinstance(item.data.action, int) else 0
        if item.data.context is not None and self.p.novelty != "state_action":
            extra += item.data.context << 20
        code = mix_int(extra + GOLDEN)
        for d, coordinate in enumerate(place):
            code = mix_int(code ^ ((int(coordinate) + GOLDEN * (d + 1)) % 2**64))
        return code % self._entries()

    def scales(self) -> tuple[float, float]:
        """ε and δ_r."""
        epsilon, delta_r = self.p.epsilon, self.p.delta_r
        if epsilon is None:
            wanted = 1 if self.p.interference == "exists" else self.p.k
            gaps = [sorted(self._gaps(i)) for i in self.slots]
            far = sorted(each[wanted - 1] for each in gaps if len(each) >= wanted)
            epsilon = far[(len(far) - 1) // 2] if far else 0.0
            if self.p.interference == "exists":
                epsilon += 1e-6
        if delta_r is None:
            delta_r = float(_spread(np.array([[e.data.reward] for e in self.slots.values()], dtype=np.float64))[0])
        return epsilon, delta_r

    def _gaps(self, i: int) -> list[float]:
        """Distances to the other experiences; but for `exists` only among the liquid of the same action and context."""
        state, mine = self._states()[0], self.slots[i]
        others = {j: e for j, e in self.slots.items() if j != i}
        if self.p.interference == "exists":
            return [_distance(state[i], state[j]) + self._action_gap(mine, e) for j, e in others.items()]
        kind = (LIQUID, mine.data.action, mine.data.context)
        others = {j: e for j, e in others.items() if (e.phase, e.data.action, e.data.context) == kind}
        return [_distance(state[i], state[j]) for j in others] if mine.phase == LIQUID else []

    def _action_gap(self, one: Item, other: Item) -> float:
        return math.sqrt(2) * (one.data.action != other.data.action)

    def _contradicted(self) -> set[int]:
        if self.p.interference == "none":
            return set()
        epsilon, delta_r = self.scales()
        state, flagged = self._states()[0], set()
        for i, mine in self.slots.items():
            apart = {j: _distance(state[i], state[j]) for j in self.slots if j != i}
            if self.p.interference == "exists":
                for j, other in self.slots.items():
                    near = j != i and apart[j] + self._action_gap(mine, other) < epsilon
                    if near and abs(mine.data.reward - other.data.reward) > delta_r:
                        flagged.add(i)
                continue
            alike = [
                other
                for j, other in self.slots.items()
                if j != i
                and apart[j] <= epsilon
                and other.data.action == mine.data.action
                and other.data.context == mine.data.context
            ]
            rule = self._newer_majority if self.p.interference == "newer_majority" else self._fresh_mean
            if rule(mine, alike, delta_r):
                flagged.add(i)
        return flagged

    def _newer_majority(self, mine: Item, alike: list[Item], delta_r: float) -> bool:
        later = sorted((e for e in alike if e.birth > mine.birth), key=lambda e: -e.birth)
        heard = later[: max(5, math.ceil(len(later) / 2))]
        newer = [abs(e.data.reward - mine.data.reward) > delta_r for e in heard]
        older = [abs(e.data.reward - mine.data.reward) > delta_r for e in alike if e.birth < mine.birth]
        outlier = sum(older) > len(older) / 2 and sum(older) >= 3
        return sum(newer) >= 2 and sum(newer) > len(newer) / 2 and not outlier

    def _fresh_mean(self, mine: Item, alike: list[Item], delta_r: float) -> bool:
        if mine.phase == LIQUID:
            return False
        since = min((e.birth for e in alike if e.phase == LIQUID), default=math.inf)
        fresh = [float(e.data.reward) for e in alike if e.birth >= since]
        older = [float(e.data.reward) for e in alike if e.birth < since] + [float(mine.data.reward)]
        if len(fresh) < 3 or all(e.evaluated for e in alike if e.birth >= since):
            return False
        against = sum(abs(reward - mine.data.reward) > delta_r for reward in fresh)
        if 5 * against < 3 * len(fresh):
            return False
        now, before = sum(fresh) / len(fresh), sum(older) / len(older)
        return abs(now - mine.data.reward) > delta_r and abs(now - before) > delta_r / 2

    def _back_up(self, flagged: set[int], near: dict[int, list[int]]) -> None:
        for slot, item in self.slots.items():
            item.interference = max(float(slot in flagged), item.interference if self.p.warm else 0.0)
        for _ in range(self.p.sweeps if self.p.backup else 0):
            before = {s: e.interference for s, e in self.slots.items()}
            for slot, item in self.slots.items():
                around = [before[j] for j in near[slot][:5]]
                future = self.p.backup * sum(around) / len(around) if around and item.data.discount > 0 else 0.0
                item.interference = max(float(slot in flagged), future)

    def _crystallize(self, chosen: list[int], output: dict[int, dict[str, np.ndarray]]) -> None:
        now = self.turns + 1 if self.p.clock == "calls" else self.time
        spread = {
            name: _spread(np.array([output[s][name] for s in chosen], dtype=np.float64)).mean()
            for name in (self.kappa if chosen else ())
        }
        for slot in chosen:
            item = self.slots[slot]
            dt = (now - item.updated) / self.p.unit(self.capacity)
            if self.p.clock == "calls":
                dt = (now - item.updated) * self.p.delta_t
            settled = 1.0
            if self.p.settle is not None and item.evaluated and self.kappa:
                drifts = [np.abs(output[slot][n] - item.anchors[n]).mean() / spread[n] for n in self.kappa]
                settled = math.exp(-sum(drifts) / len(drifts) / self.p.settle)
            gain, loss = self.p.alpha * item.utility * settled, self.p.leak
            if self.p.melt is None:
                loss += self.p.beta * item.interference
            else:
                gain, loss = gain * (1 - item.interference), loss + self.p.melt * item.interference
            item.c = float(f32(self._step(slot, item.c, gain, loss, dt)))
            item.updated = now
            follow = 1 - (item.c * (2 - item.c)) ** dt
            for name in self.kappa:
                old = item.anchors.get(name)
                new = output[slot][name]
                item.anchors[name] = new if not item.evaluated or old is None else old + follow * (new - old)
            item.evaluated = True

    def _step(self, slot: int, c: float, gain: float, loss: float, dt: float) -> float:
        sigma, start = self.p.sigma, mix_int(lane_key(self.seed, Stream.NOISE) + (self.turns + 1) * GOLDEN)
        if self.p.integrator == "euler":
            radius = math.sqrt(-2 * math.log1p(-unit(start, 2 * slot)))
            normal = radius * math.cos(2 * math.pi * unit(start, 2 * slot + 1))
            moved = c + dt * (gain * (1 - c) - loss * c) + sigma * math.sqrt(dt * c * (1 - c)) * normal
            return min(max(moved, 0.0), 1.0)
        mean, variance = moments(c, gain, loss, sigma, dt)
        if variance <= 0 or mean <= 0 or mean >= 1:
            return mean
        total = max(mean * (1 - mean) / variance - 1, 1e-12)
        shapes = torch.tensor([mean * total, (1 - mean) * total], dtype=torch.float64)
        key = torch.tensor([signed(lane_key(self.seed, Stream.NOISE))])
        begin = start_of(key, torch.tensor([self.turns]))
        return float(beta_variates(shapes[:1], shapes[1:], begin, torch.tensor([slot])))

    def _move(self, flagged: set[int], new: set[int]) -> None:
        old = {s: e.phase for s, e in self.slots.items()}
        for item in self.slots.values():
            if not self.p.phases:
                continue
            if item.phase == CRYSTAL and self.p.band_C is not None and item.c < self.p.tau_C - self.p.band_C:
                item.phase = GLASS
            if item.phase == GLASS and item.c < self.p.tau_L - self.p.band_L:
                item.phase = LIQUID
            item.phase = self._risen(item.phase, item.c)
        if self.p.overflow == "frozen":
            self._freeze(old)
        numbers = self._random(Stream.KEY, self.capacity)
        for slot, item in self.slots.items():
            if item.phase == CRYSTAL and (old[slot] != CRYSTAL or slot in new):
                item.key = float(f32(numbers[slot]))
        for slot, item in list(self.slots.items()):
            item.streak = min(item.streak + 1, 255) if item.phase == CRYSTAL and slot in flagged else 0
            if self.p.tau_evict is not None and item.streak >= self.p.tau_evict and not item.pinned:
                del self.slots[slot]
        liquid, glass, crystal = self.p.caps(self.capacity)
        self._trim(CRYSTAL, crystal, lambda e: -e.key)
        self._trim(GLASS, glass, lambda e: e.utility)
        self._trim(LIQUID, self.capacity if self.p.borrow else liquid, lambda e: e.utility)

    def _freeze(self, old: dict[int, str]) -> None:
        """Promote while there is room, highest c first, the newer first among equals; the refused stay in glass."""
        settled = sum(old[s] == CRYSTAL and e.phase == CRYSTAL for s, e in self.slots.items())
        coming = [e for s, e in self.slots.items() if e.phase == CRYSTAL and old[s] != CRYSTAL]
        coming.sort(key=lambda e: (-e.c, -e.birth))
        room = self.p.caps(self.capacity)[2] - settled
        for item in coming[max(room, 0) :]:
            item.phase = GLASS

    def _trim(self, phase: str, room: int, worth: Any) -> None:
        """Evict the least worthy, the older first among equals; what is pinned never."""
        members = [(s, e) for s, e in self.slots.items() if e.phase == phase]
        members.sort(key=lambda m: (m[1].pinned, worth(m[1]), m[1].birth))
        for slot, item in members[: max(len(members) - room, 0)]:
            if not item.pinned:
                del self.slots[slot]


def bounded(exact: dict[str, float], bound: dict[str, float], size: int) -> dict[str, float]:
    """Hand what exceeds a bound to those below theirs, one after the other; scale all up if that is not enough."""
    done: set[str] = set()
    while over := [phase for phase in exact if phase not in done and exact[phase] > bound[phase]]:
        excess = sum(exact[phase] - bound[phase] for phase in over)
        done.update(over)
        free = {phase: exact[phase] for phase in exact if exact[phase] < bound[phase]}
        exact = exact | {phase: bound[phase] for phase in over}
        for phase, share in free.items():
            exact[phase] += excess * share / sum(free.values()) if sum(free.values()) else 0.0
    return {phase: value * size / sum(exact.values()) for phase, value in exact.items()}


def moments(c: float, gain: float, loss: float, sigma: float, dt: float) -> tuple[float, float]:
    """Exact mean and variance of c after dt, by the closed formula (λ = 0 by its own)."""
    rate, noise = gain + loss, sigma**2
    if rate == 0:
        return c, c * (1 - c) * -math.expm1(-noise * dt)
    target, k = gain / rate, 2 * rate + noise
    d = c - target
    mean = target + d * math.exp(-rate * dt)
    variance = noise * target * (1 - target) * -math.expm1(-k * dt) / k
    variance += noise * (1 - 2 * target) * d * (math.exp(-rate * dt) - math.exp(-k * dt)) / (rate + noise)
    variance -= d**2 * math.exp(-2 * rate * dt) * -math.expm1(-noise * dt)
    return mean, max(variance, 0.0) if noise else 0.0


def _vector(item: Item) -> np.ndarray:
    state = np.asarray(item.data.obs)
    return state if isinstance(item.data.action, int) else np.concatenate([state, item.data.action])


def _spread(vectors: np.ndarray) -> np.ndarray:
    """Standard deviation of each coordinate; 1 where it does not vary."""
    deviation = vectors.std(0)
    return np.where(deviation > 1e-6 * (1 + np.abs(vectors.mean(0))), deviation, 1.0)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(float(((np.asarray(a, np.float64) - np.asarray(b, np.float64)) ** 2).sum()))
