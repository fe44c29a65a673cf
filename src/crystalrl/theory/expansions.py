"""Jacobi expansions of the distribution of c(t): no absorbing end, c = 1 absorbing, or both ends absorbing.

With polynomials p_n and q_n orthonormal for the `left` and `right` shapes of the `Expansion`, gain a,
λ_n = nλ + n(n−1)σ²/2 and κ = AB/((A+B)(A+B+1)):

    A, B > 0   P[c ≤ x] = I_x(A,B) − x(1−x)Beta_{A,B}(x) Σ_{n≥1} √(σ²/(2κλ_n)) e^{−λ_n t} p_n(c0) q_{n−1}(x)
    B = 0      P[c ≤ x] = (1−c0)(A+1)x^A Σ_{n≥1} √(a/λ_n) e^{−λ_n t} p_{n−1}(c0) q_{n−1}(x),             x < 1
    A = B = 0  P[c ≤ x] = 1−c0 + c0(1−c0) Σ_{n≥2} √(3σ²/λ_n) e^{−λ_n t} p_{n−2}(c0) q_{n−1}(x),          0 ≤ x < 1

The last two are limits of the first as a shape tends to 0; equivalently, h-transforms by 1−c and c(1−c). At x = 1
they give the probability that c = 1 has not been reached. A = 0 < B is the mirror image of B = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from crystalrl.theory import beta, moments
from crystalrl.theory.rates import Array, Rates
from crystalrl.theory.series import (
    MAX_POINT_DEVIATIONS,
    MAX_START_DEVIATIONS,
    MAX_TERMS,
    Expansion,
    deviations,
    least_terms,
    spectral_sum,
)

EPSILON = float(np.finfo(np.float64).eps)
MIN_LOG_DENSITY = -600.0
"""Below this log density of x the recurrence of q_n would overflow."""


def distribution(rates: Rates, x: Array, t: Array, c0: Array) -> tuple[Array, Array]:
    """P[c(t) ≤ x] (at x = 1: P[c(t) < 1]) and its error for flat arrays, t > 0; error ∞ where the series fails."""
    a, b = rates.shapes
    if rates.rate == 0:
        expansion = Expansion((2.0, 2.0), (1.0, 1.0), 2, 0, 1, 3 * rates.noise)
        return _evaluate(rates, expansion, (x, t, c0), 1 - c0, c0 * (1 - c0))
    if b == 0:
        expansion = Expansion((a, 2.0), (a + 1, 1.0), 1, 0, 0, rates.gain)
        front = (1 - c0) * (a + 1) * np.exp(np.maximum(special.xlogy(a, x), -745.0))
        return _evaluate(rates, expansion, (x, t, c0), np.zeros_like(x), front)
    total = a + b
    scale = rates.noise * total * (total + 1) / (2 * a * b)
    expansion = Expansion((a, b), (a + 1, b + 1), 1, 1, 0, scale)
    front = -np.exp(np.maximum(beta.log_weight(x, a, b), -745.0))
    return _evaluate(rates, expansion, (x, t, c0), special.betainc(a, b, x), front)


def density(rates: Rates, x: Array, t: Array, c0: Array) -> tuple[Array, Array]:
    """Density of the continuous part of c(t) and its error for flat arrays, t > 0; ∞ at an end where it diverges."""
    a, b = rates.shapes
    if rates.rate == 0:
        expansion, log_front = Expansion((2.0, 2.0), (2.0, 2.0), 2, 0, 0, None), np.full_like(x, np.log(6))
        scale = c0 * (1 - c0)
    elif b == 0:
        expansion = Expansion((a, 2.0), (a, 2.0), 1, 0, 0, None)
        log_front, scale = np.log(a * (a + 1)) + special.xlogy(a - 1, x), 1 - c0
    else:
        expansion = Expansion((a, b), (a, b), 0, 0, 0, None)
        log_front, scale = beta.log_density(x, a, b), np.ones_like(x)
    front = scale * np.exp(np.clip(log_front, -745.0, 300.0))
    value, error = _evaluate(rates, expansion, (x, t, c0), np.zeros_like(x), front)
    diverges = (log_front > 300) & np.isfinite(error)
    return np.where(diverges, np.inf, value), np.where(diverges, 0.0, error)


def usable(rates: Rates, expansion: Expansion, x: Array, t: Array, c0: Array) -> tuple[NDArray[np.bool_], Array]:
    """Where the series can be summed in float64, and the minimum number of terms there.

    The mean at time t must lie within 9 standard deviations of the stationary mean: beyond, terms of order e^40 cancel.
    """
    p, q = expansion.left
    companion = Rates(p * rates.noise / 2, q * rates.noise / 2, rates.sigma)
    z_start = deviations(moments.mean(companion, t, c0), expansion.left)
    z_point = deviations(x, expansion.right)
    # |q_n| grows like the inverse square root of the density.
    representable = beta.log_density(x, *expansion.right) > MIN_LOG_DENSITY
    decays = rates.eigenvalue(MAX_TERMS) * t > 40
    allowed = (z_start <= MAX_START_DEVIATIONS) & (z_point <= MAX_POINT_DEVIATIONS) & representable & decays
    return allowed, least_terms(z_start, z_point)


def _evaluate(
    rates: Rates, expansion: Expansion, where: tuple[Array, Array, Array], base: Array, front: Array
) -> tuple[Array, Array]:
    x, t, c0 = where
    allowed, least = usable(rates, expansion, x, t, c0)
    value, error = np.zeros_like(x), np.full_like(x, np.inf)
    if allowed.any():
        total = spectral_sum(expansion, rates, c0[allowed], x[allowed], t[allowed], least[allowed])
        value[allowed] = base[allowed] + front[allowed] * total.value
        rounding = 64 * EPSILON * (np.abs(base[allowed]) + np.abs(front[allowed]) * total.largest)
        error[allowed] = np.where(total.converged, rounding, np.inf)
    return value, error
