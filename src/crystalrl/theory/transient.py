"""Distribution of c(t) from a known start: Jacobi series, else a Beta with the exact mean and variance, else a bound.

`method` says which: "point" (no randomness, or less than float64 resolves), "series", "matched" (the Beta) or "bound"
(a far tail: the exact tail probability lies between 0 and the one given).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from crystalrl.theory import beta, bounds, expansions, moments
from crystalrl.theory.rates import Array, Rates, non_negative, unit

FAR_TAIL = 1e-8
"""Tail probabilities of the matched Beta below this are replaced by a bound."""
SERIES_TOLERANCE = 1e-6
CERTAIN = 1e-30
"""Variance below which c(t) counts as a point."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`value`, the `method` that gave it, and its estimated absolute `error`, all of the same shape."""

    value: Array
    method: NDArray[np.str_]
    error: Array


def cdf(rates: Rates, x: ArrayLike, t: ArrayLike, c0: ArrayLike) -> Answer:
    """P[c(t) ≤ x | c(0) = c0]; x, t, c0 broadcast."""
    x, t, c0 = np.broadcast_arrays(unit("x", x), non_negative("t", t), unit("c0", c0))
    if rates.gain == 0 < rates.loss:
        mirrored = _strictly_below(rates.mirrored, 1 - x, t, 1 - c0)
        return Answer(1 - mirrored.value, mirrored.method, mirrored.error)
    below = _strictly_below(rates, x, t, c0)
    at_point = (below.method == "point") & (moments.mean(rates, t, c0) <= x)
    return Answer(np.where((x >= 1) | at_point, 1.0, below.value), below.method, below.error)


def _strictly_below(rates: Rates, x: Array, t: Array, c0: Array) -> Answer:
    """P[c(t) < x]. Differs from the CDF only at atoms; needed when the law is mirrored."""
    shape = x.shape
    x, t, c0 = x.ravel(), t.ravel(), c0.ravel()
    centre, spread = moments.mean(rates, t, c0), moments.variance(rates, t, c0)
    value = np.where(centre < x, 1.0, 0.0)
    method, error = np.full(x.shape, "point", dtype="<U7"), np.zeros_like(x)
    random = spread > CERTAIN
    if random.any():
        series, rounding = expansions.distribution(rates, x[random], t[random], c0[random])
        good = rounding <= SERIES_TOLERANCE
        fallback = _matched_cdf(rates, x[random], t[random], c0[random])
        value[random] = np.where(
            good, np.clip(series, 0, 1), fallback.value
        )  # clips rounding only, which `error` covers
        method[random] = np.where(good, "series", fallback.method)
        error[random] = np.where(good, rounding, fallback.error)
    if rates.gain > 0:
        value, error = np.where(x <= 0, 0.0, value), np.where(x <= 0, 0.0, error)
    return Answer(value.reshape(shape), method.reshape(shape), error.reshape(shape))


def _matched_cdf(rates: Rates, x: Array, t: Array, c0: Array) -> Answer:
    p, q = matched_shapes(rates, t, c0)
    value, above = special.betainc(p, q, x), special.betaincc(p, q, x)
    centre = p / (p + q)
    low, high = (value < FAR_TAIL) & (x < centre), (above < FAR_TAIL) & (x > centre)
    below_bound = np.minimum(FAR_TAIL, bounds.lower_tail(rates, x, t, c0))
    above_bound = np.minimum(FAR_TAIL, bounds.lower_tail(rates.mirrored, 1 - x, t, 1 - c0))
    value = np.where(low, below_bound, np.where(high, 1 - above_bound, value))
    method = np.where(low | high, "bound", "matched")
    error = np.where(low, below_bound, np.where(high, above_bound, matched_error(rates, t, c0)))
    return Answer(value, method, error)


def matched_shapes(rates: Rates, t: Array, c0: Array) -> tuple[Array, Array]:
    """Shapes of the Beta distribution with the exact mean and variance of c(t), which must be random."""
    centre, rest = moments.mean(rates, t, c0), moments.mean(rates.mirrored, t, 1 - c0)
    spread = moments.variance(rates, t, c0)
    # Rounding can push the variance past its maximum m(1 − m), all mass at the ends; the floor keeps shapes positive.
    concentration = np.maximum(centre * rest / spread - 1, 1e-12)
    return np.maximum(centre * concentration, 1e-290), np.maximum(rest * concentration, 1e-290)


def matched_error(rates: Rates, t: Array, c0: Array) -> Array:
    """Estimated largest CDF error of the matched Beta distribution, for flat arrays of random c(t).

    Twice the Edgeworth terms of its errors in skewness and kurtosis, whose exact values are known. Near an end (a
    matched shape below 2) the Edgeworth expansion fails; the largest error observed there, ¼, is reported.
    """
    pairs, place = np.unique(np.stack([t, c0]), axis=1, return_inverse=True)
    t, c0 = pairs
    p, q = matched_shapes(rates, t, c0)
    total = p + q
    variance = moments.variance(rates, t, c0)
    skewness = 2 * (q - p) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(p * q))
    kurtosis = 6 * ((p - q) ** 2 * (total + 1) - p * q * (total + 2)) / (p * q * (total + 2) * (total + 3))
    skew_gap = np.abs(moments.third_central_moment(rates, t, c0) / variance**1.5 - skewness)
    kurtosis_gap = np.abs(moments.fourth_central_moment(rates, t, c0) / variance**2 - 3 - kurtosis)
    estimate = np.minimum(1.0, 0.133 * skew_gap + 0.046 * kurtosis_gap + 1e-5)
    return np.where(np.minimum(p, q) < 2, np.maximum(estimate, 0.25), estimate)[place.ravel()]


def pdf(rates: Rates, x: ArrayLike, t: ArrayLike, c0: ArrayLike) -> Answer:
    """Density of the continuous part of c(t); atoms carry the rest. ∞ where c(t) = x for certain."""
    x, t, c0 = np.broadcast_arrays(unit("x", x), non_negative("t", t), unit("c0", c0))
    if rates.gain == 0 < rates.loss:
        return pdf(rates.mirrored, 1 - x, t, 1 - c0)
    shape = x.shape
    x, t, c0 = x.ravel(), t.ravel(), c0.ravel()
    value = np.where(x == moments.mean(rates, t, c0), np.inf, 0.0)
    method, error = np.full(x.shape, "point", dtype="<U7"), np.zeros_like(x)
    random = moments.variance(rates, t, c0) > CERTAIN
    if random.any():
        here = x[random], t[random], c0[random]
        series, rounding = expansions.density(rates, *here)
        p, q = matched_shapes(rates, *here[1:])
        good = rounding <= SERIES_TOLERANCE * np.maximum(1.0, series)
        log_matched = beta.log_density(here[0], p, q)
        matched = np.where(log_matched > 700, np.inf, np.exp(np.minimum(log_matched, 700.0)))
        value[random] = np.where(good, np.maximum(series, 0), matched)  # below zero is rounding only
        method[random] = np.where(good, "series", "matched")
        off = 4 * np.exp(np.minimum(log_matched, 300.0)) * matched_error(rates, *here[1:])
        error[random] = np.where(good, rounding, off)
    return Answer(value.reshape(shape), method.reshape(shape), error.reshape(shape))
