"""Independent reference results: ancestral mixture and quadrature in high precision, and simulation."""

from __future__ import annotations

import mpmath
import numpy as np
from scipy import stats

from crystalrl.theory.rates import Rates


def rates(shape_low: float, shape_high: float, sigma: float = 0.1) -> Rates:
    """Rates with stationary shapes (A, B)."""
    return Rates(shape_low * sigma**2 / 2, shape_high * sigma**2 / 2, sigma)


def lineage_probabilities(total: float, time: float, most: int) -> list[float]:
    """P[m ancestral lineages are left] at `time` (in units 1/σ²) with mutation rate θ = total, m < most.

    The alternating series of Griffiths and Tavaré, summed with 120 digits.
    """
    with mpmath.workdps(120):
        theta, clock = mpmath.mpf(total), mpmath.mpf(time)
        decay = [mpmath.exp(-k * (k + theta - 1) * clock / 2) for k in range(most + 200)]
        return [_lineages_left(m, theta, decay) for m in range(most)]


def _lineages_left(m: int, theta: mpmath.mpf, decay: list[mpmath.mpf]) -> float:
    """Σ_k (−1)^(k−m) (θ+m)_(k−1) (θ+2k−1) / (m! (k−m)!) · decay_k; what k shares with k + 1 is carried on."""
    first = max(m, 1)
    value = mpmath.mpf(m == 0)
    factor = mpmath.rf(theta + m, first - 1) / mpmath.factorial(m)
    for k in range(first, len(decay)):
        term = factor * (theta + 2 * k - 1) * decay[k]
        value += -term if (k - m) % 2 else term
        if k > m + 20 and term < mpmath.mpf(10) ** -60:
            break
        factor *= (theta + m + k - 1) / (k + 1 - m)
    return float(value)


def ancestral_cdf(law: Rates, x: np.ndarray, t: float, c0: float, most: int = 120) -> np.ndarray:
    """P[c(t) ≤ x] as a mixture of Beta distributions over lineages; shares no formula with the Jacobi series."""
    a, b = law.shapes
    value = np.zeros_like(x)
    for m, weight in enumerate(lineage_probabilities(a + b, law.noise * t, most)):
        hits = np.arange(m + 1)
        chance = stats.binom.pmf(hits, m, c0)
        value += weight * (chance[:, None] * stats.beta.cdf(x, a + hits[:, None], b + m - hits[:, None])).sum(axis=0)
    return value


def mean_passage_up(law: Rates, start: float, target: float) -> float:
    """The double integral of the mean first-passage time by mpmath quadrature."""
    a, b = (mpmath.mpf(v) for v in law.shapes)

    def outer(y: mpmath.mpf) -> mpmath.mpf:
        return y ** (-a) * (1 - y) ** (-b) * mpmath.betainc(a, b, 0, y)

    with mpmath.workdps(30):
        marks = mpmath.linspace(mpmath.mpf(start) + mpmath.mpf(10) ** -25, target, 9)
        return float(2 / mpmath.mpf(law.noise) * mpmath.quad(outer, marks))


def simulate(law: Rates, c0: float, horizon: float, steps: int, paths: int, seed: int = 0) -> np.ndarray:
    """Euler–Maruyama with many small steps."""
    rng = np.random.default_rng(seed)
    dt = horizon / steps
    c = np.full(paths, c0)
    for _ in range(steps):
        noise = law.sigma * np.sqrt(dt * c * (1 - c)) * rng.standard_normal(paths)
        c = np.clip(c + dt * (law.gain * (1 - c) - law.loss * c) + noise, 0, 1)
    return c
