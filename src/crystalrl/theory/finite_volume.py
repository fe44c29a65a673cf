"""Fokker–Planck by finite volumes, for constant or time-varying rates and for absorbing thresholds.

Cells are uniform in the Lamperti angle φ with c = sin²φ, where the noise is constant (σ/2). Fluxes are
Scharfetter–Gummel, so the stationary cell masses are exact; time steps are implicit (SDIRK2: second order, L-stable).
Ends carry no flux, except an end with zero rate, which absorbs (its mass is an atom), and a first-passage threshold.
The scheme multiplies the diffusion by (Pe/2)·coth(Pe/2), Pe the cell Péclet number. The solver predicts the resulting
excess variance along the mean path and raises `Unresolved` if it exceeds the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import interpolate, linalg

from crystalrl.theory.path import Path, Schedule, mean_path
from crystalrl.theory.rates import Array, Rates, non_negative, unit

SDIRK = 1 - 1 / np.sqrt(2)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)


class Unresolved(ValueError):
    """The grid is too coarse for this noise."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Uniform cells in φ from `low` to `high` (radians), c = sin²φ. An `absorbing` end is a first-passage threshold."""

    low: float
    high: float
    cells: int
    absorbing: tuple[bool, bool] = (False, False)

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.cells

    @property
    def faces(self) -> Array:
        return np.linspace(self.low, self.high, self.cells + 1)


@dataclass(frozen=True, slots=True)
class Evolution:
    """Solution at `times` [T]: cell `masses` [T, cells], masses lost through the `ends` [T, 2] (atoms or crossings).

    `variance_error`: predicted relative excess of the variance at each time.
    """

    grid: Grid
    times: Array
    masses: Array
    ends: Array
    variance_error: Array

    def cdf(self, x: ArrayLike) -> Array:
        """P[c(t) ≤ x] at every time and x: [T, X]. Monotone cubic between faces; atoms at the ends included."""
        angle = np.arcsin(np.sqrt(np.atleast_1d(unit("x", x))))
        masses = np.where(self.masses > 1e-200, self.masses, 0.0)  # denormal slopes overflow the interpolation
        below = self.ends[:, :1] + np.concatenate([np.zeros((len(masses), 1)), np.cumsum(masses, axis=1)], axis=1)
        inside = np.clip(angle, self.grid.low, self.grid.high)
        value: Array = interpolate.PchipInterpolator(self.grid.faces, below, axis=1)(inside)
        return np.where(angle >= self.grid.high, value + self.ends[:, 1:], value)

    def mean(self) -> Array:
        """E[c] at every time; mass that crossed a threshold counts at the threshold."""
        return self._moment(lambda c: c)

    def variance(self) -> Array:
        """Var[c] at every time."""
        return self._moment(lambda c: c**2) - self.mean() ** 2

    def _moment(self, power: Callable[[Array], Array]) -> Array:
        centre = power(np.sin(self.grid.faces[:-1] + self.grid.width / 2) ** 2)
        ends = power(np.sin(np.array([self.grid.low, self.grid.high])) ** 2)
        return np.asarray(self.masses @ centre + self.ends @ ends)


@dataclass(frozen=True, slots=True)
class Options:
    """Number of `cells`, `tolerance` of the predicted relative variance error, and `fineness` of the time steps."""

    cells: int = 2000
    tolerance: float = 0.05
    fineness: float = 1.0


def solve(schedule: Schedule, c0: float, times: ArrayLike, options: Options, grid: Grid | None = None) -> Evolution:
    """Evolve a point mass at c0 to each of the increasing `times`."""
    stops = np.atleast_1d(non_negative("times", times))
    start = float(unit("c0", c0))
    if np.any(falls := np.diff(stops) <= 0):
        late, early = stops[:-1][falls][0], stops[1:][falls][0]
        raise ValueError(f"times: wanted increasing ones, got {early:g} after {late:g}")
    grid = grid or Grid(0.0, np.pi / 2, options.cells)
    path = check_resolution(schedule, start, stops, grid, options)
    return _march(schedule, grid, _point_mass(grid, start), path)


def check_resolution(schedule: Schedule, c0: float, stops: Array, grid: Grid, options: Options) -> Path:
    """The time grid through the stops; raises Unresolved if the predicted variance error exceeds the tolerance."""
    if schedule.sigma == 0:
        raise ValueError("sigma: wanted a number > 0 for a density, got 0: without noise c follows the mean path")
    path = mean_path(schedule, c0, stops, grid.width, options.fineness)
    excess = float(path.variance_error.max())
    if excess > options.tolerance:
        wanted = int(grid.cells * np.sqrt(excess / options.tolerance)) + 1
        raise Unresolved(
            f"{grid.cells} cells cannot resolve sigma = {schedule.sigma:g}: the variance would be off by "
            f"{excess:.1%}, wanted at most {options.tolerance:.1%}; about {wanted} cells would do"
        )
    return path


def _march(schedule: Schedule, grid: Grid, state: Array, path: Path) -> Evolution:
    """Evolve `state` [cells + 2], the cell masses between the two end masses, along the path."""
    kept = []
    matrix = lru_cache(maxsize=2)(lambda rates: generator(rates, grid))  # constant rates: built once
    for begin, end, stop in zip(path.grid[:-1], path.grid[1:], path.is_stop[1:], strict=True):
        step = SDIRK * (end - begin)
        early = _implicit(matrix(schedule.at(begin + step)), state, step)
        state = _implicit(matrix(schedule.at(end)), state + (1 - SDIRK) / SDIRK * (early - state), step)
        if stop:
            kept.append(state)
    if path.is_stop[0]:
        kept.insert(0, _point_mass(grid, path.start))
    rows = np.array(kept)
    return Evolution(grid, path.stops, rows[:, 1:-1], rows[:, [0, -1]], path.variance_error)


def _implicit(banded: Array, state: Array, step: float) -> Array:
    """Solve (I − step·M) y = state for a tridiagonal M in banded form [3, n]."""
    system = -step * banded
    system[1] += 1
    return np.asarray(linalg.solve_banded((1, 1), system, state, check_finite=False, overwrite_ab=True))


def generator(rates: Rates, grid: Grid) -> Array:
    """Banded matrix of dP/dt = M·P over [low end, cells, high end]; columns sum to zero, so mass is conserved."""
    step, diffusion = grid.width, rates.noise / 8
    potential = cell_potential(rates, grid)
    jump = np.diff(potential)
    up = np.zeros(grid.cells + 2)
    down = np.zeros(grid.cells + 2)
    up[1:-2] = diffusion / step**2 * _bernoulli(-jump)
    down[2:-1] = diffusion / step**2 * _bernoulli(jump)
    down[1] = _outflow(rates, grid, 0)
    up[-2] = _outflow(rates, grid, 1)
    banded = np.zeros((3, grid.cells + 2))
    banded[0, 1:] = down[1:]
    banded[1] = -(up + down)
    banded[2, :-1] = up[:-1]
    return banded


def cell_potential(rates: Rates, grid: Grid) -> Array:
    """ln of the mean stationary weight sin^(2A−1)φ cos^(2B−1)φ in each cell, exact in end cells where it diverges."""
    a, b = rates.shapes
    faces, half = grid.faces, grid.width / 2
    centre = faces[:-1] + half
    nodes = centre[:, None] + half * _NODES
    value = _log_angle_weight(nodes, a, b)
    peak = value.max(axis=1)
    potential = peak + np.log(np.exp(value - peak[:, None]) @ (_WEIGHTS / 2))
    if grid.low == 0 and a > 0:
        potential[0] = _log_end_mass(float(np.sin(faces[1]) ** 2), a, b) - np.log(grid.width)
    if grid.high == np.pi / 2 and b > 0:
        potential[-1] = _log_end_mass(float(np.cos(faces[-2]) ** 2), b, a) - np.log(grid.width)
    return np.asarray(potential)


def _log_angle_weight(angle: Array, a: float, b: float) -> Array:
    return (2 * a - 1) * np.log(np.sin(angle)) + (2 * b - 1) * np.log(np.cos(angle))


def _log_end_mass(c: float, p: float, q: float) -> float:
    """ln ½∫₀ᶜ z^(p−1)(1−z)^(q−1) dz for small c: four terms of its series."""
    total, term = 0.0, 1.0
    for n in range(4):
        total += term / (p + n)
        term *= (n + 1 - q) * c / (n + 1)
    lead = p * np.log(c) - np.log(2)
    return float(lead + np.log(total) if total > 0 else lead - np.log(p))


def _outflow(rates: Rates, grid: Grid, side: int) -> float:
    """Rate at which the outermost cell on `side` (0: low, 1: high) loses mass to its end: 0 unless the end absorbs."""
    if grid.absorbing[side]:
        edge = grid.high if side else grid.low
        inner = edge - grid.width / 2 if side else edge + grid.width / 2
        pair = np.clip(np.array([inner, edge]), 1e-12, np.pi / 2 - 1e-12)
        drop = float(np.diff(_log_angle_weight(pair, *rates.shapes))[0])
        return float(rates.noise / 4 / grid.width**2 * _bernoulli(np.array(-drop)))
    rate = rates.loss if side else rates.gain
    at_end = grid.high == np.pi / 2 if side else grid.low == 0
    return rates.noise / 2 / float(np.sin(grid.width) ** 2) if at_end and rate == 0 else 0.0


def _bernoulli(x: Array) -> Array:
    """The Bernoulli function x/(e^x − 1)."""
    small = np.abs(x) < 1e-6
    safe = np.clip(np.where(small, 1.0, x), -700, 700)
    return np.asarray(np.where(small, 1 - x / 2, np.where(x > 700, 0.0, np.where(x < -700, -x, safe / np.expm1(safe)))))


def _point_mass(grid: Grid, c0: float) -> Array:
    """A unit mass at c0, split between the two nearest cells so that the mean angle is exact."""
    state = np.zeros(grid.cells + 2)
    place = (np.arcsin(np.sqrt(c0)) - grid.low) / grid.width - 0.5
    left = int(np.clip(np.floor(place), 0, grid.cells - 2))
    share = float(np.clip(place - left, 0, 1))
    state[left + 1], state[left + 2] = 1 - share, share
    return state
