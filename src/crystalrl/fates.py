"""What happens to individual experiences while the contents of a memory turn over."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crystalrl.lifecycle import Lifecycle
from crystalrl.params_checks import floats
from crystalrl.turnover import GOLDEN, Array, Climb, Turnover

PROBES = 60
"""Number of experiences followed."""
INSTANT = 1e-6
"""Times closer together than this belong to the same consolidation."""


@dataclass(frozen=True)
class Fates:
    """When things happened to experiences of one utility, in environment steps after their arrival; ∞: never."""

    glass: Array
    crystal: Array
    lost: Array
    """Overwritten, or evicted for lack of room, before they became crystal."""
    crowded: NDArray[np.bool_]
    """Whether they were lost because glass was full of more useful ones, not overwritten as liquid."""
    refused: NDArray[np.bool_]
    """Whether the crystal store was full when they could have become crystal."""

    def share(self, what: str) -> float:
        """Share of the experiences to which it happened."""
        return float(np.isfinite(getattr(self, what)).mean())

    def mean(self, what: str) -> float:
        """Mean time at which it happened; NaN if it did not."""
        values = getattr(self, what)
        return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else math.nan


def fates(
    seen: Turnover, params: Lifecycle, climb: Climb, utility: float, interval: float, *, first: bool = False
) -> Fates:
    """Follow experiences that arrive at different times, in the long run or (first) in the first interval."""
    span = interval if first else seen.cycle * seen.interval
    begin = 0.0 if first else (len(seen.newest) - seen.cycle) * seen.interval
    number = np.arange(PROBES)
    birth = (np.floor((begin + span * number / PROBES) / interval) + (number + 0.5) * GOLDEN % 1.0) * interval
    rows = [_Probe(seen, params, climb, utility, interval, at).fate() for at in birth]
    return Fates(*(np.array(column) for column in zip(*rows, strict=True)))


class _Probe:
    """One experience: when c passes the thresholds, and when its utility lies below a limit."""

    def __init__(
        self, seen: Turnover, params: Lifecycle, climb: Climb, utility: float, interval: float, birth: float
    ) -> None:
        self.seen, self.utility, self.birth = seen, utility, birth
        self.glass, self.crystal = (
            _rise(climb, floats(tau)[0], interval, params.slices, birth) if params.phases else math.inf
            for tau in (params.tau_L, params.tau_C)
        )
        begin = int(birth / seen.interval)
        intervals = begin + np.arange(seen.cycle + 2 + len(seen.newest) - begin)
        self.index, self.shift = seen.at(intervals)
        self.ends = (intervals + 1) * seen.interval - birth
        """Steps from the arrival to the end of each interval."""

    def fate(self) -> tuple[float, float, float, bool, bool]:
        """The fields of `Fates`."""
        newest = self.seen.newest[self.index[0]]
        gone = float(newest) if self.ends[0] > newest else self._lost_as_liquid()
        if gone < self.glass or math.isinf(self.glass):
            return math.inf, math.inf, gone, False, False
        refused = self._refused()
        gone = self._lost_as_glass(math.inf if refused else self.crystal)
        glass = self.glass if gone > self.glass + INSTANT else math.inf  # otherwise evicted at once
        crystal = math.inf if refused or gone < self.crystal else self.crystal
        return glass, crystal, gone, math.isfinite(gone), refused

    def _below(self, limit: Array) -> NDArray[np.bool_]:
        """In which intervals the experience lies below the limit."""
        value, age = limit[self.index, 0], limit[self.index, 1] + self.shift
        return np.asarray((self.utility < value) | ((self.utility == value) & (self.birth <= age)))

    def _lost_as_liquid(self) -> float:
        starts = self.ends - self.seen.interval
        trimmed = self._below(self.seen.trimmed) & (self.ends < self.glass)
        overwritten = self._below(self.seen.overwritten) & (starts > 0) & (starts < self.glass)
        times = np.concatenate([self.ends[trimmed], starts[overwritten] + self.seen.interval / 2])
        return float(times.min(initial=math.inf))

    def _refused(self) -> bool:
        if math.isinf(self.crystal):
            return False
        place = min(len(self.index) - 1, int(np.searchsorted(self.ends, self.crystal - INSTANT)))
        return bool(self.seen.closed[self.index[place]])

    def _lost_as_glass(self, until: float) -> float:
        there = (self.ends >= self.glass - INSTANT) & (self.ends < until - INSTANT)
        return float(self.ends[self._below(self.seen.displaced) & there].min(initial=math.inf))


def _rise(climb: Climb, tau: float, interval: float, slices: int, birth: float) -> float:
    """Environment steps from the arrival to the consolidation at which c has passed τ."""
    wait, stride = (1 - birth / interval % 1.0) * interval, interval * slices
    return float(wait + (climb.consolidations(tau, wait / stride) - 1) * stride)
