"""The three constants of every formula (gain, loss, sigma), and argument checks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

SMALLEST_SIGMA = 1e-8


def non_negative(name: str, value: ArrayLike) -> Array:
    """`value` as a float64 array; raises ValueError unless finite and ≥ 0."""
    return _within(name, value, 0.0, math.inf, "a finite number ≥ 0")


def unit(name: str, value: ArrayLike) -> Array:
    """`value` as a float64 array; raises ValueError unless in [0, 1]."""
    return _within(name, value, 0.0, 1.0, "a number in [0, 1]")


def _within(name: str, value: ArrayLike, low: float, high: float, expected: str) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0 and low <= (number := array.item()) <= high and number < math.inf:
        return array  # most are single numbers, which NumPy's comparisons check ten times slower
    bad = ~(np.isfinite(array) & (array >= low) & (array <= high))
    if bad.any():
        raise ValueError(f"{name}: wanted {expected}, got {np.atleast_1d(array)[np.atleast_1d(bad)][0]:g}")
    return array


@dataclass(frozen=True, slots=True)
class Rates:
    """dc = [gain·(1 − c) − loss·c] dt + sigma·√(c(1 − c)) dW, with gain a = αU and loss b = βI + leak.

    Invariant: gain and loss are finite and ≥ 0; sigma is 0 or at least 1e-8 (below that 2a/σ² overflows).
    """

    gain: float
    loss: float
    sigma: float

    def __post_init__(self) -> None:
        non_negative("gain", self.gain)
        non_negative("loss", self.loss)
        non_negative("sigma", self.sigma)
        if 0 < self.sigma < SMALLEST_SIGMA:
            raise ValueError(f"sigma: wanted 0 or at least {SMALLEST_SIGMA:g}, got {self.sigma:g}")

    @property
    def rate(self) -> float:
        """λ = a + b, the relaxation rate of the mean and the spectral gap."""
        return self.gain + self.loss

    @property
    def noise(self) -> float:
        """σ²."""
        return self.sigma**2

    @property
    def target(self) -> float:
        """c* = a / λ. Undefined when both rates are zero (every point is fixed)."""
        if self.rate == 0:
            raise ValueError("gain, loss: wanted one above 0, got 0 and 0: every state is a fixed point")
        return self.gain / self.rate

    @property
    def shapes(self) -> tuple[float, float]:
        """(A, B) = (2a/σ², 2b/σ²) of the stationary Beta distribution; needs σ > 0."""
        return 2 * self.gain / self.noise, 2 * self.loss / self.noise

    @property
    def mirrored(self) -> Rates:
        """The rates of 1 − c: gain and loss swapped."""
        return Rates(self.loss, self.gain, self.sigma)

    def eigenvalue(self, n: ArrayLike) -> Array:
        """λ_n = nλ + n(n − 1)σ²/2, the relaxation rates of the law; λ₁ = λ is the spectral gap."""
        order = np.asarray(n, dtype=np.float64)
        return order * self.rate + order * (order - 1) * self.noise / 2
