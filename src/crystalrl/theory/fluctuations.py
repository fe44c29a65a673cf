"""The effect of fluctuating U and I on c; inserting their averages into the stationary Beta is wrong (Prop. averaging).

Three regimes by correlation time: independent at every step (exact moments), short (an effective diffusion), and frozen
per experience (a mixture of constant-coefficient laws).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crystalrl.theory import transient
from crystalrl.theory.rates import Array, Rates, non_negative, unit
from crystalrl.theory.stationary import Stationary, stationary


@dataclass(frozen=True, slots=True)
class Fluctuation:
    """Variances and covariance of U and I around the law's constant utility and interference."""

    utility_variance: float = 0.0
    interference_variance: float = 0.0
    covariance: float = 0.0

    def __post_init__(self) -> None:
        non_negative("utility_variance", self.utility_variance)
        non_negative("interference_variance", self.interference_variance)
        limit = np.sqrt(self.utility_variance * self.interference_variance)
        if abs(self.covariance) > limit * (1 + 1e-12):
            raise ValueError(f"covariance: wanted at most {limit:g} in absolute value, got {self.covariance:g}")


@dataclass(frozen=True, slots=True)
class Moments:
    """Stationary mean and variance."""

    mean: float
    variance: float


def independent_moments(alpha: float, beta: float, rates: Rates, noise: Fluctuation, dt: float = 1.0) -> Moments:
    """Exact stationary moments of the Euler step when (U, I) are redrawn independently at every step dt.

    With R = 1 − dt(αU + βI + leak) and S = dt·αU: m = E S/(1 − E R), and
    m₂ = (2E[RS]m + E[S²] + σ²dt·m)/(1 − E[R²] + σ²dt). Clipping at the ends is ignored.
    """
    if rates.rate == 0:
        raise ValueError("gain, loss: wanted one above 0 for stationary moments, got 0 and 0")
    up, down = dt * alpha, dt * beta
    kept, gained = 1 - dt * rates.rate, dt * rates.gain
    var_gain, var_loss, both = up**2 * noise.utility_variance, down**2 * noise.interference_variance, up * down
    cross = both * noise.covariance
    square_kept = kept**2 + var_gain + var_loss + 2 * cross
    if square_kept - rates.noise * dt >= 1:
        raise ValueError(f"dt: wanted a step that contracts (E[R²] < 1), got {dt:g} with E[R²] = {square_kept:g}")
    mean = gained / (1 - kept)
    joint = kept * gained - var_gain - cross
    second = (2 * joint * mean + gained**2 + var_gain + rates.noise * dt * mean) / (1 - square_kept + rates.noise * dt)
    return Moments(mean, second - mean**2)


@dataclass(frozen=True, slots=True)
class CorrelationTimes:
    """Integrated correlation times of U and I, in units of t. Independent draws every dt count as dt/2."""

    utility: float
    interference: float


def effective_diffusion(
    alpha: float, beta: float, rates: Rates, noise: Fluctuation, times: CorrelationTimes, c: ArrayLike
) -> Array:
    """D_eff(c) = σ²c(1−c) + 2τ_U α²Var(U)(1−c)² + 2τ_I β²Var(I)c²; valid while both times are far below 1/λ.

    For an exponential correlation of time τ the predicted variance D_eff/(2λ) is too large by a factor of 1 + λτ.
    """
    c = unit("c", c)
    from_utility = 2 * times.utility * alpha**2 * noise.utility_variance * (1 - c) ** 2
    from_interference = 2 * times.interference * beta**2 * noise.interference_variance * c**2
    return np.asarray(rates.noise * c * (1 - c) + from_utility + from_interference)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Distribution over experiences with frozen (U_i, I_i): a weighted mixture of constant-coefficient laws."""

    parts: tuple[Rates, ...]
    weights: tuple[float, ...]

    @property
    def stationary_parts(self) -> tuple[Stationary, ...]:
        return tuple(stationary(part) for part in self.parts)

    def moments(self) -> Moments:
        """Stationary mean and variance over experiences and time."""
        laws = self.stationary_parts
        mean = sum(w * law.mean for w, law in zip(self.weights, laws, strict=True))
        second = sum(w * (law.variance + law.mean**2) for w, law in zip(self.weights, laws, strict=True))
        return Moments(float(mean), float(second - mean**2))

    def stationary_cdf(self, x: ArrayLike) -> Array:
        """P[c ≤ x] in the long run."""
        laws = zip(self.weights, self.stationary_parts, strict=True)
        return np.asarray(sum(w * law.cdf(x) for w, law in laws))

    def cdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike) -> Array:
        """P[c(t) ≤ x] from one common start."""
        parts = zip(self.weights, self.parts, strict=True)
        return np.asarray(sum(w * transient.cdf(part, x, t, c0).value for w, part in parts))

    def atom(self, place: float) -> float:
        """Long-run probability that c equals `place` exactly."""
        laws = zip(self.weights, self.stationary_parts, strict=True)
        return float(sum(w * mass for w, law in laws for at, mass in law.atoms if at == place))


def mixture(parts: list[Rates], weights: ArrayLike) -> Mixture:
    """A mixture with weights ≥ 0, normalised to sum to one."""
    share = np.atleast_1d(non_negative("weights", weights))
    if len(parts) != share.size or share.sum() == 0:
        raise ValueError(f"weights: wanted {len(parts)} numbers ≥ 0 with a positive sum, got {share.tolist()}")
    return Mixture(tuple(parts), tuple(float(w) for w in share / share.sum()))
