"""First passage of c to a threshold: deterministic times, mean first passage, survival, absorption.

The mean first-passage time is a double integral, evaluated in logarithms because it can be 10^200. From c0 down to τ,

    E[T] = (2/σ²) ∫_τ^c0 y^(−A)(1−y)^(−B) ∫_y^1 z^(A−1)(1−z)^(B−1) dz dy,

and upward its mirror image. Hypergeometric eigenfunctions overflow near A = 2000, so survival is computed by finite
volumes with an absorbing threshold, and by labelled approximations where σ is too small for any grid.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from crystalrl.theory import beta, finite_volume, moments, transient
from crystalrl.theory.path import Schedule
from crystalrl.theory.rates import Array, Rates, non_negative, unit
from crystalrl.theory.transient import Answer

LARGEST_LOG = 709.0
"""exp overflows above this."""
RARE = 1e-4
"""Exponential law if relaxation time / mean passage time, or the crossing probability, is at most this."""
SURVIVAL = finite_volume.Options(cells=3000, tolerance=0.02)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def time_to(rates: Rates, tau: ArrayLike, c0: ArrayLike) -> Array:
    """Time at which the mean path m(t) reaches τ: −ln((c* − τ)/(c* − c0))/λ, or ∞ if it never does."""
    tau, start = np.broadcast_arrays(unit("tau", tau), unit("c0", c0))
    if rates.rate == 0:
        return np.where(tau == start, 0.0, np.inf)
    to_go, distance = rates.target - tau, rates.target - start
    share = np.where(distance != 0, to_go / np.where(distance != 0, distance, 1.0), 0.0)
    reached = (share > 0) & (share <= 1)
    time = -np.log(np.where(reached, share, 1.0)) / rates.rate
    return np.where(tau == start, 0.0, np.where(reached, time, np.inf))


def log_mean_first_passage(rates: Rates, tau: ArrayLike, c0: ArrayLike) -> Array:
    """ln E[first time c = τ], upward if c0 < τ, downward if c0 > τ; −∞ at τ = c0, +∞ where the mean is infinite."""
    tau, start = np.broadcast_arrays(unit("tau", tau), unit("c0", c0))
    if rates.noise == 0:
        time = time_to(rates, tau, start)
        return np.where(time > 0, np.log(np.where(time > 0, time, 1.0)), -np.inf)
    value = np.empty(tau.shape)
    for index in np.ndindex(tau.shape):
        value[index] = _log_passage(rates, float(tau[index]), float(start[index]))
    return value


def mean_first_passage(rates: Rates, tau: ArrayLike, c0: ArrayLike) -> Array:
    """E[first time c = τ]; ∞ where it is infinite or exceeds 1e308 (then use `log_mean_first_passage`)."""
    log = log_mean_first_passage(rates, tau, c0)
    return np.where(log > LARGEST_LOG, np.inf, np.exp(np.minimum(log, LARGEST_LOG)))


def _log_passage(rates: Rates, tau: float, start: float) -> float:
    if tau == start:
        return -np.inf
    if start > tau:
        return _log_passage(rates.mirrored, 1 - tau, 1 - start)
    a, b = rates.shapes
    trapped = a == 0  # c = 0 absorbs, so τ may never be reached
    unreachable = tau == 1 and b >= 1
    if trapped or unreachable:
        return np.inf
    nodes, weights = _graded_nodes(start, tau, rates.target)
    return float(np.log(2 / rates.noise) + special.logsumexp(beta.log_hazard(nodes, a, b), b=weights))


def _graded_nodes(low: float, high: float, centre: float) -> tuple[Array, Array]:
    """Gauss nodes on panels that shrink geometrically towards both ends and c*, where the integrand varies fast."""
    marks = sorted({low, high, min(max(centre, low), high)})
    edges = [low, high]
    for left, right in pairwise(marks):
        shrink = (right - left) * 0.5 ** np.arange(1, 46)
        edges += list(left + shrink) + list(right - shrink)
    panel = np.unique(np.array(edges + marks))
    panel = panel[(panel >= low) & (panel <= high)]
    half, middle = np.diff(panel) / 2, (panel[:-1] + panel[1:]) / 2
    nodes = middle[:, None] + half[:, None] * _NODES
    weights = half[:, None] * _WEIGHTS
    inside = (nodes > low) & (nodes < high) & (nodes > 0) & (nodes < 1)
    return nodes[inside], weights[inside]


def absorption_time(rates: Rates, c0: ArrayLike) -> Array:
    """Mean time until c is absorbed at an end whose rate is zero; ∞ when both rates are positive or there is no noise.

    From c0 = 0 with loss 0 it is (2/σ²)(ψ(A) + γ)/(A − 1); with both rates 0 it is twice the entropy of c0 over σ².
    """
    start = unit("c0", c0)
    if rates.gain > 0 and rates.loss > 0:
        return np.full(start.shape, np.inf)
    if rates.rate == 0:
        if rates.noise == 0:
            return np.where((start == 0) | (start == 1), 0.0, np.inf)
        return np.asarray(2 * (special.entr(start) + special.entr(1 - start)) / rates.noise)
    return mean_first_passage(rates, 1.0 if rates.loss == 0 else 0.0, start)


def survival(rates: Rates, tau: ArrayLike, t: ArrayLike, c0: ArrayLike) -> Answer:
    """P[τ not yet reached at time t]; tau, t, c0 broadcast.

    `method`: "point" (no noise, or τ = c0), "volumes" (finite volumes), "rare" (τ beyond c*: P ≈ e^(−t/E[T])) or
    "no return" (σ too small for a grid: the drift carries c past τ, so having crossed means being beyond τ).
    """
    tau, t, start = np.broadcast_arrays(unit("tau", tau), non_negative("t", t), unit("c0", c0))
    value, error = np.empty(t.shape), np.zeros(t.shape)
    method = np.full(t.shape, "point", dtype="<U9")
    pairs = np.stack([tau.ravel(), start.ravel()], axis=1)
    for threshold, begin in np.unique(pairs, axis=0):
        here = (tau == threshold) & (start == begin)
        answer = _survival(rates, float(threshold), t[here], float(begin))
        value[here], method[here], error[here] = answer.value, answer.method, answer.error
    return Answer(value, method, error)


def _survival(rates: Rates, tau: float, t: Array, start: float) -> Answer:
    """Survival at times t [n] for one threshold and one start."""
    certain = moments.variance(rates, t, start) == 0
    if tau == start or rates.noise == 0 or certain.all():
        value = np.where(time_to(rates, tau, start) > t, 1.0, 0.0)
        return Answer(value, np.full(t.shape, "point"), np.zeros(t.shape))
    if start > tau:
        return _survival(rates.mirrored, 1 - tau, t, 1 - start)
    rare = _rare(rates, tau, t, start)
    if rare is not None:
        return rare
    try:
        return _by_volumes(rates, tau, t, start)
    except finite_volume.Unresolved:
        return _no_return(rates, tau, t, start)


def _rare(rates: Rates, tau: float, t: Array, start: float) -> Answer | None:
    """P ≈ e^(−t/E[T]) if τ lies above c* and the passage takes far longer than relaxation; else None."""
    if rates.rate == 0 or rates.target >= tau:
        return None
    log = float(log_mean_first_passage(rates, tau, start))
    crossed = -np.expm1(-np.exp(np.maximum(np.log(np.maximum(t, 1e-300)) - log, -745.0)))
    if np.exp(-min(log, LARGEST_LOG)) / rates.rate > RARE and crossed.max() > RARE:
        return None
    return Answer(1 - crossed, np.full(t.shape, "rare"), np.minimum(crossed, 2e-4))


def _by_volumes(rates: Rates, tau: float, t: Array, start: float) -> Answer:
    """Finite volumes on [0, τ] with an absorbing top; raises Unresolved where σ is too small."""
    crossing = float(np.minimum(t.max(), time_to(rates, tau, start)))
    moving = np.unique(t[t > 0])
    grid = finite_volume.Grid(0.0, float(np.arcsin(np.sqrt(tau))), SURVIVAL.cells, (False, True))
    schedule = Schedule.constant(rates)
    finite_volume.check_resolution(schedule, start, np.array([crossing]), grid, SURVIVAL)
    solution = finite_volume.solve(schedule, start, moving, finite_volume.Options(SURVIVAL.cells, np.inf), grid)
    table = dict(zip(moving, solution.masses.sum(axis=1) + solution.ends[:, 0], strict=True))
    value = np.array([1.0 if time == 0 else table[time] for time in t])
    return Answer(np.clip(value, 0, 1), np.full(t.shape, "volumes"), np.full(t.shape, 1e-3))


def _no_return(rates: Rates, tau: float, t: Array, start: float) -> Answer:
    """P[c(t) < τ]: an upper bound, nearly exact if the drift at τ dominates the noise."""
    below = transient.cdf(rates, tau, t, start)
    return Answer(below.value, np.full(t.shape, "no return"), below.error + 5e-3)
