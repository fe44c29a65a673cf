"""Functions of the Beta distribution, accurate for shapes from 1e-6 to 1e12 and far into the tails."""

from __future__ import annotations

import numpy as np
from scipy import special

from crystalrl.theory.rates import Array

_LOG_2PI = float(np.log(2 * np.pi))


def log_weight(x: Array, p: float | Array, q: float | Array) -> Array:
    """ln[x^p (1 − x)^q / B(p, q)] for p, q > 0: the Beta density times x(1 − x).

    Loader's saddle-point form avoids ln Γ, which would cancel at shapes of 1e10. −∞ at x = 0 and 1.
    """
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    total = p + q
    peak = 0.5 * (np.log(p) + np.log(q) - np.log(total) - _LOG_2PI)
    correction = stirling_error(total) - stirling_error(p) - stirling_error(q)
    return np.asarray(peak + correction - _deviance(p, total * x) - _deviance(q, total * (1 - x)))


def log_density(x: Array, p: float | Array, q: float | Array) -> Array:
    """ln of the Beta(p, q) density; +∞ at an end where the density diverges."""
    inside = np.clip(x, 1e-300, 1 - 1e-16)
    value = log_weight(inside, p, q) - np.log(inside) - np.log1p(-inside)
    at_zero = np.where(np.asarray(p) < 1, np.inf, np.where(np.asarray(p) > 1, -np.inf, value))
    at_one = np.where(np.asarray(q) < 1, np.inf, np.where(np.asarray(q) > 1, -np.inf, value))
    return np.asarray(np.where(x <= 0, at_zero, np.where(x >= 1, at_one, value)))


def stirling_error(z: Array) -> Array:
    """Error of Stirling's formula, δ(z) = ln Γ(z) − (z − ½) ln z + z − ½ ln 2π."""
    large = np.maximum(z, 15.0)
    inverse = 1 / large**2
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / large
    small = np.minimum(z, 15.0)
    direct = special.gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * _LOG_2PI
    return np.asarray(np.where(z >= 15, series, direct))


def _deviance(k: Array, expected: Array) -> Array:
    """k ln(k/expected) + expected − k without cancellation near k = expected; +∞ at expected = 0."""
    k, expected = np.broadcast_arrays(k, expected)
    ratio = (k - expected) / (k + expected)
    near = np.abs(ratio) < 0.1
    safe = np.where(near, ratio, 0.0)
    order = np.arange(1, 12)
    tail = np.sum(safe[..., None] ** (2 * order + 1) / (2 * order + 1), axis=-1)
    positive = np.where(expected > 0, expected, k)
    far = np.where(expected > 0, k * (np.log(k) - np.log(positive)) + expected - k, np.inf)
    return np.asarray(np.where(near, (k - expected) * safe + 2 * k * tail, far))


def log_hazard(x: Array, p: float, q: float) -> Array:
    """ln of ∫₀ˣ z^(p−1)(1−z)^(q−1) dz / (x^p (1−x)^q) for 0 < x < 1, p > 0 and q ≥ 0."""
    x = np.asarray(x, dtype=np.float64)
    if q > 0:
        return log_cdf(x, p, q) - log_weight(x, p, q)
    steep = max(p, 2.0)
    near = (1 - x) * steep < 1
    at_one = _log_near_one(np.where(near, x, 1 - 0.5 / steep), p)
    return np.asarray(np.where(near, at_one, np.log(_hazard(np.where(near, 0.5, x), p, q))))


def _log_near_one(x: Array, p: float) -> Array:
    """ln[x^(−p) ∫₀ˣ z^(p−1)/(1−z) dz] for p(1−x) < 1: the logarithmic series of the hypergeometric function at 1."""
    k = np.arange(60)
    away = (1 - x)[..., None]
    growth = np.cumprod(away * (p + k[:-1]) / (k[:-1] + 1), axis=-1)
    factor = np.concatenate([np.ones_like(away), growth], axis=-1)
    terms = (special.digamma(k + 1) - special.digamma(p + k) - np.log(away)) * factor
    return np.asarray(np.log(terms.sum(axis=-1)))


def log_cdf(x: Array, p: float, q: float) -> Array:
    """ln I_x(p, q), also where I_x underflows; −∞ at 0."""
    x = np.asarray(x, dtype=np.float64)
    fraction = np.asarray(special.betainc(p, q, x))
    underflows = (fraction < 1e-280) & (x > 0)
    value = np.where(fraction > 0, np.log(np.where(fraction > 0, fraction, 1.0)), -np.inf)
    if underflows.any():
        value[underflows] = log_weight(x[underflows], p, q) + np.log(_hazard(x[underflows], p, q))
    return value


def _hazard(x: Array, p: float, q: float) -> Array:
    """∫₀ˣ z^(p−1)(1−z)^(q−1) dz / (x^p (1−x)^q) for x below p/(p + q).

    A continued fraction. For shapes above 1e6, where it converges too slowly, the Mills ratio of the integrand, with a
    relative error below 1e-4 beyond 30 standard deviations (q > 0) or of order 1/p (q = 0).
    """
    if p + q < 1e6:
        return _fraction(x, p, q) / p
    if q == 0:
        reach = p * (1 - x) / x
        near = special.exp1(np.minimum(reach, 500.0)) * np.exp(np.minimum(reach, 500.0))
        inverse = 1 / np.maximum(reach, 500.0)
        far = inverse * (1 - inverse * (1 - 2 * inverse))
        return np.asarray(np.where(reach < 500, near, far) / x)
    slope = p - (p + q) * x
    y = (p + q) * x * (1 - x) / slope**2
    return np.asarray((1 - y * (1 - y * (3 - 15 * y))) / slope)


def _fraction(x: Array, p: float, q: float) -> Array:
    """The continued fraction of B_x(p, q)·p / (x^p (1−x)^q) (modified Lentz); fast for x below p/(p + q)."""
    tiny = 1e-300
    c = np.ones_like(x)
    d = 1 / _away_from_zero(1 - (p + q) * x / (p + 1), tiny)
    value = d.copy()
    for m in range(1, 20_000):
        before = value
        for numerator in (
            m * (q - m) * x / ((p + 2 * m - 1) * (p + 2 * m)),
            -(p + m) * (p + q + m) * x / ((p + 2 * m) * (p + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d, tiny)
            c = _away_from_zero(1 + numerator / c, tiny)
            value = value * d * c
        if np.all(np.abs(value - before) <= 1e-14 * np.abs(value)):
            return value
    raise ArithmeticError(
        f"the continued fraction of the incomplete Beta function did not converge for shapes ({p:g}, {q:g})"
    )


def _away_from_zero(value: Array, tiny: float) -> Array:
    return np.where(np.abs(value) < tiny, tiny, value)
