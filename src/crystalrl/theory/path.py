"""Time-varying rates, and their moment equations, which set the time steps and predict numerical diffusion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crystalrl.theory.rates import Array, Rates


@dataclass(frozen=True, slots=True)
class Schedule:
    """gain(t) = αU(t) and loss(t) = βI(t) + leak as functions of time, with one sigma > 0."""

    gain: Callable[[float], float]
    loss: Callable[[float], float]
    sigma: float

    @staticmethod
    def constant(rates: Rates) -> Schedule:
        return Schedule(lambda _: rates.gain, lambda _: rates.loss, rates.sigma)

    def at(self, t: float) -> Rates:
        """The rates at time t; raises if they are negative or not finite."""
        return Rates(float(self.gain(t)), float(self.loss(t)), self.sigma)


@dataclass(frozen=True, slots=True)
class Path:
    """A time `grid` that contains every stop (`is_stop`), and the predicted relative variance error at each stop."""

    start: float
    stops: Array
    grid: Array
    is_stop: Array
    variance_error: Array


def inflation(rates: Rates, mean: float, width: float) -> float:
    """(Pe/2)·coth(Pe/2) at c = mean, the inflation of the diffusion by Scharfetter–Gummel in cells of this width."""
    a, b = rates.shapes
    angle = float(np.clip(np.arcsin(np.sqrt(mean)), width / 2, np.pi / 2 - width / 2))
    half = width * abs((a - 0.5) / np.tan(angle) - (b - 0.5) * np.tan(angle))
    return half / np.tanh(half) if half > 1e-4 else 1.0


def mean_path(schedule: Schedule, start: float, stops: Array, width: float, fineness: float = 1.0) -> Path:
    """Integrate the moments (midpoint rule); a step moves the mean by ¼ standard deviation and t by 4 % at most."""
    now, mean, true, numeric = 0.0, start, 0.0, _cell_variance(start, width)
    grid, is_stop, errors = [0.0], [bool(stops[0] == 0)], []
    if is_stop[0]:
        errors.append(0.0)
    for stop in stops[stops > 0]:
        while now < stop:
            rates = schedule.at(now)
            step = min(_step(rates, now, mean, true, width) / fineness, stop - now)
            step = stop - now if stop - now < 1.5 * step else step
            mean, true, numeric = _advance(schedule, now, step, (mean, true, numeric), width)
            now = stop if step == stop - now else now + step
            grid.append(now)
            is_stop.append(bool(now == stop))
        errors.append(abs(numeric / max(true, 1e-300) - 1) if true > 0 else 0.0)
    return Path(start, stops, np.array(grid), np.array(is_stop), np.array(errors))


def _cell_variance(c: float, width: float) -> float:
    """Upper bound on the variance in c of a point mass split between two cells."""
    return float(width**2 * c * (1 - c) + width**4)


def _step(rates: Rates, now: float, mean: float, variance: float, width: float) -> float:
    drift = abs(rates.gain * (1 - mean) - rates.loss * mean)
    scale = np.sqrt(variance) + width * np.sqrt(mean * (1 - mean)) + width**2
    first = 0.02 * width**2 / max(rates.noise, 1e-300)
    growth = 0.04 * (now + first)
    return float(min(0.25 * scale / drift, growth) if drift > 0 else growth)


def _advance(
    schedule: Schedule, now: float, step: float, state: tuple[float, float, float], width: float
) -> tuple[float, float, float]:
    """One exponential-midpoint step of (mean, variance, variance with numerical diffusion); stable for any step."""
    mean, true, numeric = state
    rates = schedule.at(now + step / 2)
    decayed = float(np.exp(-rates.rate * step))
    middle = _relax(mean, rates, float(np.exp(-rates.rate * step / 2)))
    factor = inflation(rates, middle, width)
    source = rates.noise * middle * (1 - middle)
    return (
        _relax(mean, rates, decayed),
        _settle(true, source, 2 * rates.rate + rates.noise, step),
        _settle(numeric, source * factor, 2 * rates.rate + rates.noise, step),
    )


def _relax(mean: float, rates: Rates, kept: float) -> float:
    return rates.target + (mean - rates.target) * kept if rates.rate > 0 else mean


def _settle(value: float, source: float, decay: float, step: float) -> float:
    """v after `step` of dv/dt = source − decay·v."""
    kept = float(np.exp(-decay * step))
    return value * kept + source * ((1 - kept) / decay if decay * step > 1e-8 else step)
