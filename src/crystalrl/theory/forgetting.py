"""Will a crystal fall below a threshold? "Below at T" and "ever below by T" are different questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crystalrl.theory import bounds, passage, transient
from crystalrl.theory.rates import Array, Rates, non_negative, unit
from crystalrl.theory.stationary import stationary

RELAXED = 1e-3
"""The stationary tail is used once the leading relaxation term is below this."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """P[c(T) < τ] (`below`) and P[c < τ at some time ≤ T] (`ever`); every field has the broadcast shape.

    `log10_*` stay finite where the probability underflows. `bound` is the smallest of the three bounds on `below` that
    follow it; 1 means that a bound does not apply. `certain` flags c* < τ: forgetting is only a matter of time.
    """

    below: Array
    log10_below: Array
    below_method: NDArray[np.str_]
    ever: Array
    log10_ever: Array
    ever_method: NDArray[np.str_]
    bound: Array
    sub_gaussian: Array
    cantelli: Array
    comparison: Array
    certain: NDArray[np.bool_]


def forgetting(rates: Rates, horizon: ArrayLike, tau: ArrayLike, c0: ArrayLike) -> Forgetting:
    """Forgetting by time `horizon` of an experience that starts at c0 > τ; arguments broadcast."""
    t, x, start = np.broadcast_arrays(non_negative("T", horizon), unit("tau", tau), unit("c0", c0))
    if np.any(low := start <= x):
        raise ValueError(f"c0: wanted a start above tau, got {start[low][0]:g} for tau = {x[low][0]:g}")
    gaussian, cantelli = bounds.sub_gaussian(rates, x, t, start), bounds.cantelli(rates, x, t, start)
    comparison = np.exp(np.maximum(bounds.log_comparison(rates, x, start), -745.0))
    log_below, method = _log10_below(rates, x, t, start)
    log_ever, ever_method = _log10_ever(rates, x, t, start, np.where(method == "bound", -np.inf, log_below))
    settles = rates.target if rates.rate > 0 else start
    bound = np.minimum(np.minimum(gaussian, cantelli), comparison)
    return Forgetting(
        below=_from_log10(log_below),
        log10_below=log_below,
        below_method=method,
        ever=_from_log10(log_ever),
        log10_ever=log_ever,
        ever_method=ever_method,
        bound=bound,
        sub_gaussian=gaussian,
        cantelli=cantelli,
        comparison=comparison,
        certain=np.asarray(settles < x),
    )


def _log10_below(rates: Rates, x: Array, t: Array, start: Array) -> tuple[Array, NDArray[np.str_]]:
    """log₁₀ P[c(t) < x]: the CDF where it exceeds its error, the stationary tail once relaxed, else a bound."""
    answer = transient.cdf(rates, x, t, start)
    known = (answer.value > 10 * answer.error) & (answer.method != "bound")
    value, method = _log10(answer.value), answer.method.astype("<U10")
    uncertain = ~known & (answer.method != "point")
    if not uncertain.any():
        return value, method
    tightest = np.minimum(bounds.log_sub_gaussian(rates, x, t, start), bounds.log_comparison(rates, x, start))
    largest = answer.value + answer.error
    largest_log = np.where(largest > 1e-300, _log10(largest), 0.0)
    limit = np.where(uncertain, np.minimum(tightest / np.log(10), largest_log), value)
    method = np.where(uncertain, "bound", method)
    if rates.rate == 0 or rates.gain == 0 or rates.loss == 0:
        return limit, method
    law = stationary(rates)
    deviation = np.sqrt(law.variance)
    leading = np.exp(-rates.rate * t) * np.abs(start - law.mean) * np.abs(x - law.mean) / deviation**2
    relaxed = uncertain & (leading < RELAXED)
    return np.where(relaxed, law.log10_cdf(x), limit), np.where(relaxed, "stationary", method)


def _log10_ever(rates: Rates, x: Array, t: Array, start: Array, log_below: Array) -> tuple[Array, NDArray[np.str_]]:
    """log₁₀ P[c < x at some time ≤ t]; at least `log_below` = log₁₀ P[c(t) < x], −∞ where that is unknown."""
    answer = passage.survival(rates, x, t, start)
    value, method = _log10(1 - answer.value), answer.method.copy()
    rare = answer.method == "rare"
    if rare.any():
        log_mean = passage.log_mean_first_passage(rates, x[rare], start[rare])
        ratio = np.log(np.maximum(t[rare], 1e-300)) - log_mean
        crossed = -np.expm1(-np.exp(np.clip(ratio, -700, 700)))
        value[rare] = np.where(ratio < -30, ratio / np.log(10), np.log10(crossed))
    return np.maximum(value, log_below), method


def _log10(value: Array) -> Array:
    return np.asarray(np.where(value > 0, np.log10(np.where(value > 0, value, 1.0)), -np.inf))


def _from_log10(log10: Array) -> Array:
    return np.asarray(np.where(log10 > -323, 10.0 ** np.maximum(log10, -323), 0.0))
