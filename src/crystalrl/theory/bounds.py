"""Valid bounds on P[c(t) < x], with their conditions (they replace Thm forgetting)."""

from __future__ import annotations

import numpy as np

from crystalrl.theory import beta, moments
from crystalrl.theory.rates import Array, Rates


def log_sub_gaussian(rates: Rates, x: Array, t: Array, c0: Array) -> Array:
    """ln of the bound exp(−4λ(m(t) − x)²/(σ²(1 − e^(−2λt)))); 0 where m(t) ≤ x (no bound).

    e^(λt)(c − m) is a martingale with quadratic variation at most σ²(e^(2λt) − 1)/(8λ). λ = 0 gives
    exp(−2(c0 − x)²/(σ²t)).
    """
    gap = np.maximum(moments.mean(rates, t, c0) - x, 0.0)
    spread = rates.noise * _decayed(2 * rates.rate, t) / 4
    ratio = gap / np.sqrt(np.maximum(spread, 1e-300))  # 0 where c(t) is deterministic: the bound is then 0 or 1
    return np.asarray(-(np.minimum(ratio, 1e150) ** 2) / 2)


def sub_gaussian(rates: Rates, x: Array, t: Array, c0: Array) -> Array:
    """exp of `log_sub_gaussian`; 1 where m(t) ≤ x."""
    return np.asarray(np.exp(np.maximum(log_sub_gaussian(rates, x, t, c0), -745.0)))


def cantelli(rates: Rates, x: Array, t: Array, c0: Array) -> Array:
    """Cantelli's bound v/(v + (m − x)²); 1 where m(t) ≤ x (no bound)."""
    gap = np.maximum(moments.mean(rates, t, c0) - x, 0.0)
    spread = moments.variance(rates, t, c0)
    total = spread + gap**2
    return np.asarray(np.where(gap > 0, spread / np.where(total > 0, total, 1.0), 1.0))


def log_comparison(rates: Rates, x: Array, c0: Array) -> Array:
    """ln min(1, I_x(A, B)/I_c0(A, B)), a bound on P[c(t) < x] for every t ≥ 0 if A, B > 0; otherwise 0 (no bound).

    Under the stationary distribution, P[c(t) < x] is the average of P_y[c(t) < x] over starts y. This probability
    decreases in y, so the average is at least I_c0 times its value at c0.
    """
    if rates.noise == 0 or rates.gain == 0 or rates.loss == 0:
        return np.zeros(np.broadcast_shapes(x.shape, c0.shape))
    a, b = rates.shapes
    start = beta.log_cdf(np.maximum(c0, 1e-300), a, b)
    return np.asarray(np.minimum(beta.log_cdf(np.maximum(x, 1e-300), a, b) - start, 0.0))


def lower_tail(rates: Rates, x: Array, t: Array, c0: Array) -> Array:
    """The smallest of the three bounds on P[c(t) < x]."""
    comparison = np.exp(np.maximum(log_comparison(rates, x, c0), -745.0))
    pair = np.minimum(sub_gaussian(rates, x, t, c0), cantelli(rates, x, t, c0))
    return np.asarray(np.minimum(pair, comparison))


def _decayed(rate: float, t: Array) -> Array:
    """∫₀ᵗ e^(−rate·s) ds."""
    return np.asarray(-np.expm1(-rate * t) / rate) if rate > 0 else np.asarray(t)
