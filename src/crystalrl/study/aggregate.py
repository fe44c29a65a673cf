"""Statistics over many tasks and orders: interquartile mean, profiles, probability of improvement, order variance.

The unit is a learner: a row of `scores` [n, T]. What one learner reaches on its tasks is not independent, so the
bootstrap draws whole learners, within strata that the design fixed (`strata` [n], such as the task order). Give it one
row per run and the task as the stratum where every task had learners of its own (Agarwal et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from crystalrl.study.stats import LEVEL

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A statistic and its bootstrap interval; arrays for a whole profile."""

    value: Array
    low: Array
    high: Array


def interquartile_mean(scores: Array) -> Array:
    """Mean of the middle half of all scores [..., n, T]: a quarter of the runs at either end does not count."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    mean: Array = stats.trim_mean(flat, 0.25, axis=-1)
    return mean


def stratified(
    scores: Array,
    statistic: Callable[[Array], Array],
    strata: Labels | None = None,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Estimate:
    """A statistic of scores [n, T] with its percentile interval, learners redrawn within their strata.

    `statistic` takes [..., n, T] and gives [...], or [..., points] for a profile.
    """
    drawn = statistic(scores[redrawn(len(scores), strata, resamples)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Estimate(statistic(scores), low, high)


def redrawn(count: int, strata: Labels | None, resamples: int, seed: int = 0) -> Labels:
    """int64[resamples, n]: learners drawn with replacement, as many of each stratum as there are; always the same."""
    labels = np.zeros(count, np.int64) if strata is None else np.asarray(strata)
    if labels.shape != (count,) or not count:
        raise ValueError(f"strata: wanted one label for each of {count} learners, got shape {labels.shape}")
    random, out = np.random.default_rng(seed), np.empty((resamples, count), np.int64)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        out[:, mine] = mine[random.integers(len(mine), size=(resamples, len(mine)))]
    return out


def profile(scores: Array, thresholds: Array) -> Array:
    """[..., points]: the share of all scores [..., n, T] above each threshold."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    return np.stack([(flat > at).mean(axis=-1) for at in thresholds], axis=-1)


def improvement(a: Array, b: Array, resamples: int = RESAMPLES, level: float = LEVEL) -> Estimate:
    """Probability that a learner of a [n, T] beats one of b [m, T] on the same task, mean over tasks; ties count half.

    It is Mann and Whitney's U over n·m; the interval redraws the learners of both.
    """
    wins = ((a[:, None] > b) + 0.5 * (a[:, None] == b)).mean(axis=-1)
    rows, columns = redrawn(len(a), None, resamples, 1), redrawn(len(b), None, resamples, 2)
    drawn = wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(np.asarray(wins.mean()), np.asarray(low), np.asarray(high))


@dataclass(frozen=True)
class OrderVariance:
    """Components of variance of a score: of the order itself, of the seed, of both together with chance.

    `within` is the variance over orders of one seed, mean over seeds: what the order can change in a single study.
    `p` is that of no order being better than another (two-way analysis of variance).
    """

    order: float
    seed: float
    rest: float
    within: float
    p: float


def order_variance(values: Array) -> OrderVariance:
    """Of scores [seeds, orders], every seed with every order; NaN below two of either."""
    seeds, orders = values.shape
    if min(seeds, orders) < 2:
        return OrderVariance(*[float("nan")] * 5)
    by_seed, by_order = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
    left = values - by_seed - by_order + values.mean()
    rest = float((left**2).sum() / ((seeds - 1) * (orders - 1)))
    of_order, of_seed = float(seeds * by_order.var(ddof=1)), float(orders * by_seed.var(ddof=1))
    chance = stats.f.sf(of_order / rest, orders - 1, (seeds - 1) * (orders - 1)) if rest > 0 else of_order == 0
    within = float(values.var(axis=1, ddof=1).mean())
    order, seed = max((of_order - rest) / seeds, 0.0), max((of_seed - rest) / orders, 0.0)
    return OrderVariance(order, seed, rest, within, float(chance))
