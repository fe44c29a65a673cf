"""The stationary distribution of c: a Beta distribution, one atom or two (Thm stationary with its conditions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from crystalrl.theory import beta
from crystalrl.theory.rates import Array, Rates, unit

Boundary = Literal["entrance", "regular", "exit", "unreachable"]
BOUNDARIES: dict[Boundary, str] = {
    "entrance": "never hit after time 0",
    "regular": "hit in finite time, left immediately",
    "exit": "hit in finite time, absorbing",
    "unreachable": "approached, never hit (no noise)",
}


@dataclass(frozen=True, slots=True)
class Stationary:
    """Limit distribution of c(t): `shapes` (A, B) of a Beta distribution, or `atoms` ((place, mass), …); never both.

    `mode` is the interior maximum, None if there is none. `lower` and `upper` are Feller's classes of the ends.
    """

    shapes: tuple[float, float] | None
    atoms: tuple[tuple[float, float], ...]
    mean: float
    variance: float
    mode: float | None
    lower: Boundary
    upper: Boundary

    def cdf(self, x: ArrayLike) -> Array:
        """P[c ≤ x]."""
        x = unit("x", x)
        if self.shapes is not None:
            return np.asarray(special.betainc(*self.shapes, x))
        return np.asarray(sum(mass * (x >= place) for place, mass in self.atoms) + 0.0 * x)

    def pdf(self, x: ArrayLike) -> Array:
        """Density of the continuous part: zero everywhere if there are only atoms."""
        x = unit("x", x)
        if self.shapes is None:
            return np.zeros_like(x)
        return np.asarray(np.exp(np.minimum(beta.log_density(x, *self.shapes), 709.0)))

    def log10_cdf(self, x: ArrayLike) -> Array:
        """log₁₀ P[c ≤ x], also where the probability underflows."""
        x = unit("x", x)
        if self.shapes is not None:
            return np.asarray(beta.log_cdf(x, *self.shapes) / np.log(10))
        below = self.cdf(x)
        return np.asarray(np.where(below > 0, np.log10(np.where(below > 0, below, 1.0)), -np.inf))


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Stationary shares of time with c in [0, τ_L), [τ_L, τ_C] and (τ_C, 1] (Cor. occupancy)."""

    liquid: float
    glass: float
    crystal: float


def boundary(shape: float | None) -> Boundary:
    """Feller class of the end whose shape parameter is A (at 0) or B (at 1); None means no noise."""
    if shape is None:
        return "unreachable"
    if shape == 0:
        return "exit"
    return "entrance" if shape >= 1 else "regular"


def stationary(rates: Rates, c0: float | None = None) -> Stationary:
    """The stationary distribution. `c0` is needed only if gain = loss = 0, where the limit depends on the start."""
    if rates.rate == 0:
        return _neutral(rates, c0)
    target = rates.target
    if rates.noise == 0:
        return Stationary(None, ((target, 1.0),), target, 0.0, target, boundary(None), boundary(None))
    a, b = rates.shapes
    lower, upper = boundary(a), boundary(b)
    if a == 0 or b == 0:
        return Stationary(None, ((target, 1.0),), target, 0.0, target, lower, upper)
    mode = (a - 1) / (a + b - 2) if a > 1 and b > 1 else None
    return Stationary((a, b), (), target, target * (1 - target) / (1 + a + b), mode, lower, upper)


def _neutral(rates: Rates, c0: float | None) -> Stationary:
    if c0 is None:
        raise ValueError("c0: wanted a number in [0, 1], since the limit depends on it where gain = loss = 0, got none")
    start = float(unit("c0", c0))
    if rates.noise == 0:
        return Stationary(None, ((start, 1.0),), start, 0.0, start, boundary(None), boundary(None))
    atoms = ((0.0, 1 - start), (1.0, start))
    return Stationary(None, atoms, start, start * (1 - start), None, "exit", "exit")


def occupancy(law: Stationary, liquid_below: float, crystal_above: float) -> Occupancy:
    """Shares of time in each phase if c alone decides the phase; with hysteresis, buffers lag behind."""
    low, high = float(unit("tau_L", liquid_below)), float(unit("tau_C", crystal_above))
    if not low < high:
        raise ValueError(f"tau_L: wanted a number below tau_C, got {low:g} and {high:g}")
    if law.shapes is not None:
        in_liquid, above = special.betainc(*law.shapes, low), special.betaincc(*law.shapes, high)
        middle = special.betainc(*law.shapes, high) - in_liquid
        return Occupancy(float(in_liquid), float(middle), float(above))
    in_liquid = sum(mass for place, mass in law.atoms if place < low)
    above = sum(mass for place, mass in law.atoms if place > high)
    return Occupancy(in_liquid, 1 - in_liquid - above, above)
