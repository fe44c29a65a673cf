"""Simulates how the contents of a memory turn over: how fast c rises, and which experiences are replaced meanwhile.

The simulated memory starts empty and receives one experience per environment step, each with constant utility and
without interference. It follows the rules of `CrystalMemory`, with the mean of c in place of a random c. A large memory
is scaled down: fewer slots, and proportionally fewer experiences. `Turnover` records what was overwritten or evicted,
and when; `crystalrl.fates` follows individual experiences through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.lifecycle import Lifecycle
from crystalrl.params_checks import floats

Array = NDArray[np.float64]
FREE, LIQUID, GLASS, CRYSTAL = range(4)
SLOTS = 2000
"""Maximum number of simulated slots."""
PER_FILLING = 50
"""Maximum number of simulated consolidations while as many experiences arrive as the memory has slots."""
FILLINGS = 10
"""How often the simulation fills the memory."""
LONGEST = 500
"""The simulation is not prolonged if experiences need more consolidations than this to become crystal."""
GOLDEN = (math.sqrt(5) - 1) / 2
NOTHING = (-1.0, -1.0)
"""A limit below the utility and birth of every experience."""


@dataclass(frozen=True)
class Climb:
    """The mean of c over consolidations with constant rates per unit of time."""

    gain: float
    loss: float
    step: float
    """Δt of one consolidation."""
    by_calls: bool
    """Whether the first consolidation takes a whole step; otherwise it takes the time since the arrival."""
    euler: bool

    @classmethod
    def of(cls, params: Lifecycle, interval: float, slots: int, utility: float, interference: float = 0.0) -> Climb:
        """For an experience whose outputs have settled; with the first lane's parameters, if they differ."""
        alpha, beta, leak = (floats(x)[0] for x in (params.alpha, params.beta, params.leak))
        gain, loss = alpha * utility, beta * interference
        if params.melt is not None:
            gain, loss = gain * (1 - interference), floats(params.melt)[0] * interference
        by_calls = params.clock == "calls"
        step = params.delta_t if by_calls else interval / params.unit(slots)
        return cls(gain, loss + leak, step * params.slices, by_calls, params.integrator == "euler")

    @property
    def target(self) -> float:
        """c*, the limit of c from 0."""
        return self.gain / (self.gain + self.loss) if self.gain + self.loss else 0.0

    def kept(self, dt: Any) -> Array:
        """Share of the distance to c* that is left after a step."""
        rate = (self.gain + self.loss) * np.asarray(dt, dtype=np.float64)
        return np.maximum(0.0, 1 - rate) if self.euler else np.exp(-rate)

    def consolidations(self, tau: float, wait: Any, start: float = 0.0) -> Array:
        """Consolidations until c, from `start`, has passed τ; ∞: never. `wait`: part of a step before the first."""
        wait = np.asarray(wait, dtype=np.float64)
        left = (tau - self.target) / (start - self.target) if start != self.target else -1.0
        if not 0 < left < 1:
            return np.full_like(wait, np.inf)
        first = self.kept(self.step * (np.ones_like(wait) if self.by_calls else wait))
        each = float(self.kept(self.step))
        if each == 0:
            return np.where(first < left, 1.0, 2.0)
        more = np.log(left / np.maximum(first, 1e-300)) / math.log(each)
        return np.where(first < left, 1.0, 2.0 + np.floor(more + 1e-9))


@dataclass(frozen=True)
class Turnover:
    """What the simulated memory did in each interval between two consolidations; later, the last quarter repeats.

    A limit is the utility and birth of the last experience that was removed. All experiences of lower utility, and
    those of equal utility that are older, were removed before it.
    """

    interval: float
    """Environment steps between two consolidations of the simulated memory."""
    overwritten: Array
    """[T, 2]: limit among evaluated liquid experiences."""
    newest: Array
    """[T]: experiences that arrive more than this many steps before the consolidation are overwritten before it."""
    trimmed: Array
    """[T, 2]: limit among liquid experiences beyond their capacity, at the consolidation."""
    displaced: Array
    """[T, 2]: limit among glass beyond its capacity."""
    closed: NDArray[np.bool_]
    """[T]: whether the crystal store accepts no more crystals."""
    formed: Array
    """[T, 2]: new glass and new crystals, per environment step."""
    counts: Array
    """[T, 3]: slots in use after the consolidation by phase, as shares of all."""
    full_after: float | None
    """Environment steps until the crystal store was full; None: it never was."""

    @property
    def cycle(self) -> int:
        """Number of intervals that repeat."""
        return max(1, len(self.newest) // 4)

    def at(self, interval: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        """Index of each interval in the record, and the environment steps to add to the births recorded there."""
        last = len(self.newest)
        cycles = np.maximum(0, -(-(interval + 1 - last) // self.cycle))
        return interval - cycles * self.cycle, cycles * self.cycle * self.interval

    @property
    def used(self) -> float:
        """Share of the slots in use after a consolidation, in the long run."""
        return float(self.counts[-self.cycle :].sum(-1).mean())

    @property
    def shares(self) -> tuple[float, float]:
        """Shares of the experiences that become glass and crystal, in the long run."""
        glass, crystal = self.formed[-self.cycle :].mean(0)
        return min(1.0, float(glass)), min(1.0, float(crystal))


def steps_between(params: Lifecycle, slots: int, episode: int | None = None) -> float:
    """Mean environment steps between consolidations; `episode`: the steps of an episode, if it makes one due."""
    every: int = params.interval(slots)
    if episode is None or not params.every_episode:
        return float(every)
    return 1 / (1 / every + 1 / episode - 1 / math.lcm(every, episode))


def turnover(params: Lifecycle, slots: int, interval: float, utilities: Sequence[float] | None = None) -> Turnover:
    """Simulate a memory. utilities: those of the experiences that arrive, in any order; None: uniform over [0, 1]."""
    followed = _Followed(params, slots, interval, utilities)
    for _ in range(followed.consolidations):
        followed.arrive()
        followed.consolidate()
    return followed.seen()


class _Followed:
    """The simulated memory: at most `SLOTS` slots, and at most `PER_FILLING` consolidations per filling."""

    def __init__(self, params: Lifecycle, slots: int, interval: float, utilities: Sequence[float] | None) -> None:
        self.params, self.slots = params, slots
        joined = max(1, round(slots / PER_FILLING / interval))
        self.interval = interval * joined
        self.scale = min(1.0, max(SLOTS / slots, 1 / self.interval))
        caps = [round(cap * self.scale) for cap in params.caps(slots)]
        self.count = count = max(2, round(slots * self.scale))
        self.caps = (min(max(1, caps[0]), count), caps[1], min(caps[2], count - 1 - caps[1]))
        self.climb = Climb.of(params, self.interval, slots, 1.0)
        if self.climb.by_calls:
            self.climb = replace(self.climb, step=self.climb.step * joined)
        self.sorted = np.sort(np.asarray(utilities, dtype=np.float64)) if utilities is not None else None
        self.phase, self.utility = np.zeros(count, dtype=np.int64), np.zeros(count)
        self.birth, self.distance = np.full(count, -1.0), np.ones(count)
        """Environment step of the arrival; distance to c*, as a share of c*."""
        self.done, self.number, self.random = 0, 0, np.random.default_rng(0)
        self.records: list[dict[str, Any]] = []

    @property
    def consolidations(self) -> int:
        """Number to simulate: `FILLINGS`, and at least four times as many as experiences of utility 1 need to become
        crystal."""
        best = float(self.climb.consolidations(floats(self.params.tau_C)[0], 1.0))
        fillings = math.ceil(FILLINGS * self.slots / self.interval)
        return max(4, fillings, 4 * int(best) if best < LONGEST else 0)

    def _drawn(self, numbers: NDArray[np.int64]) -> Array:
        level = (numbers + 1) * GOLDEN % 1.0
        if self.sorted is None:
            return np.asarray(level)
        return np.asarray(self.sorted[(level * len(self.sorted)).astype(np.int64)])

    def arrive(self) -> None:
        """Write the experiences of one interval: to free slots, then to liquid ones by utility, then over new ones."""
        first, self.number = self.number, int((self.done + 1) * self.interval * self.scale)
        order = np.lexsort((self.birth, np.where(self.phase == FREE, -1.0, self.utility), self.phase))
        order = order[: int((self.phase <= LIQUID).sum())]
        coming, room = self.number - first, len(order)
        written = order[: min(coming, room)]
        old = written[self.phase[written] == LIQUID]
        limit = (self.utility[old[-1]], self.birth[old[-1]]) if len(old) else NOTHING
        newest = math.inf if coming <= room else room / self.scale
        self.records.append({"overwritten": limit if coming <= room else (2.0, math.inf), "newest": newest})
        numbers = np.arange(self.number - len(written), self.number)
        self.utility[written], self.birth[written] = self._drawn(numbers), (numbers + 0.5) / self.scale
        self.phase[written], self.distance[written] = LIQUID, 1.0

    def consolidate(self) -> None:
        """One step of c, then promotions and evictions, as `memory.crystal.phases` does them."""
        start, self.done = self.done * self.interval, self.done + 1
        before, record = self.phase.copy(), self.records[-1]
        c = self._step(np.where(self.birth >= start, (self.done * self.interval - self.birth) / self.interval, 1.0))
        held = int((before == CRYSTAL).sum())
        if self.params.phases:
            self.phase[(before == LIQUID) & (c > floats(self.params.tau_L)[0])] = GLASS
            ready = np.flatnonzero((self.phase == GLASS) & (c > floats(self.params.tau_C)[0]))
            if self.params.overflow == "frozen":
                ready = ready[np.argsort(-c[ready], kind="stable")][: max(0, self.caps[2] - held)]
            self.phase[ready] = CRYSTAL
        crystallized = (before < CRYSTAL) & (self.phase == CRYSTAL)
        crystals = np.flatnonzero(self.phase == CRYSTAL)
        self.phase[self.random.permutation(crystals)[self.caps[2] :]] = FREE
        record["displaced"] = self._evict(GLASS, self.caps[1])
        record["trimmed"] = self._evict(LIQUID, self.count if self.params.borrow else self.caps[0])
        risen = ((before == LIQUID) & (self.phase == GLASS)).sum() + ((before == LIQUID) & crystallized).sum()
        record["formed"] = tuple(float(n) / self.interval / self.scale for n in (risen, crystallized.sum()))
        record["counts"] = tuple((self.phase == p).sum() / self.count for p in (LIQUID, GLASS, CRYSTAL))
        record["closed"] = self.params.overflow == "frozen" and held >= self.caps[2]

    def _step(self, part: Array) -> Array:
        """c of all slots after a step. New experiences take only a part of it."""
        climb = self.climb
        gain = climb.gain * self.utility
        rate = (gain + climb.loss) * climb.step * (1.0 if climb.by_calls else part)
        self.distance *= np.maximum(0.0, 1 - rate) if climb.euler else np.exp(-rate)
        target = np.divide(gain, gain + climb.loss, out=np.zeros_like(gain), where=gain + climb.loss > 0)
        return np.asarray(target * (1 - self.distance))

    def _evict(self, phase: int, room: int) -> tuple[float, float]:
        """Evict the least useful experiences of a phase beyond its capacity; returns the limit."""
        members = np.flatnonzero(self.phase == phase)
        order = members[np.lexsort((self.birth[members], self.utility[members]))]
        gone = order[: max(0, len(order) - room)]
        self.phase[gone] = FREE
        return (float(self.utility[gone[-1]]), float(self.birth[gone[-1]])) if len(gone) else NOTHING

    def seen(self) -> Turnover:
        columns = {name: np.array([record[name] for record in self.records]) for name in self.records[0]}
        full = np.flatnonzero(columns["counts"][:, 2] * self.count >= max(1, self.caps[2]) - 0.5)
        full_after = float(full[0] + 1) * self.interval if len(full) else None
        return Turnover(interval=self.interval, full_after=full_after, **columns)
