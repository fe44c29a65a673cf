"""Statistics of samples of seeds: intervals, tests, effect sizes, and aggregates over many tasks and orders.

SciPy does what it can; this module adds the cases that it leaves open (no variance at all, NaN).

Bootstrap intervals are percentile intervals at widened probabilities (Hesterberg 2015): the plain ones are too short
for few seeds. BCa intervals are, too; studentised ones can be far wider than all scores. `python -m benchmarks run
coverage` compares them.

Aggregates take `scores` [n, T], one row per learner. One learner's scores on its tasks are not independent, so the
bootstrap resamples whole learners, within strata that the design fixed (`strata` [n], such as the task order). If every
task had its own learners, pass one row per run and the task as the stratum (Agarwal et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

LEVEL = 0.95
"""Confidence level of every interval."""
RESAMPLES = 5000
"""Bootstrap resamples of an aggregate."""
FAR = 1000.0
"""For |t| above this, the noise of the mean is negligible compared with that of the standard deviation."""


@dataclass(frozen=True)
class Summary:
    """Mean over seeds, standard deviation, and the bootstrap interval of the mean."""

    mean: float
    deviation: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Effect:
    """A standardised difference of means with its interval."""

    size: float
    low: float
    high: float


UNKNOWN = Effect(float("nan"), float("nan"), float("nan"))


def widened(count: int, level: float = LEVEL, strata: int = 1) -> tuple[float, float]:
    """Probabilities of the resampled statistic between which the interval lies, for this many learners and strata.

    Resampling n learners shows only (n − 1)/n of the variance, and the variance itself is estimated: so Student's t
    replaces the normal law (Hesterberg 2015).
    """
    own = count / strata
    if own <= 1:
        return (1 - level) / 2, (1 + level) / 2
    t = float(stats.t.ppf((1 + level) / 2, count - strata)) * np.sqrt(own / (own - 1))
    return float(stats.norm.cdf(-t)), float(stats.norm.cdf(t))


def summarise(sample: Array, level: float = LEVEL, resamples: int = 10_000) -> Summary:
    """Mean of a sample float64[n] with a bootstrap interval; the resampling is deterministic."""
    if not len(sample):
        raise ValueError("sample: wanted at least one number, got none")
    draws = np.random.default_rng(0).integers(len(sample), size=(resamples, len(sample)))
    low, high = np.quantile(sample[draws].mean(axis=1), widened(len(sample), level))
    deviation = float(sample.std(ddof=1)) if len(sample) > 1 else 0.0
    return Summary(float(sample.mean()), deviation, float(low), float(high), len(sample))


def welch(a: Array, b: Array) -> float:
    """Two-sided p of Welch's t-test; without any variance, 1 if the means are equal, else 0. NaN below two each."""
    if min(len(a), len(b)) < 2:
        return float("nan")
    if np.ptp(a) == np.ptp(b) == 0:
        return float(a[0] == b[0])
    ours, theirs = ((np.mean(x), np.std(x, ddof=1), len(x)) for x in (a, b))  # one sample may be constant
    return float(stats.ttest_ind_from_stats(*ours, *theirs, equal_var=False).pvalue)


def welch_interval(a: Array, b: Array, level: float = LEVEL) -> tuple[float, float]:
    """Interval of the difference of means that goes with Welch's test; NaN with fewer than two of either."""
    if min(len(a), len(b)) < 2:
        return float("nan"), float("nan")
    difference, parts = float(a.mean() - b.mean()), [x.var(ddof=1) / len(x) for x in (a, b)]
    if sum(parts) == 0:
        return difference, difference
    freedom = sum(parts) ** 2 / sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b), strict=True))
    half = float(stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(sum(parts)))
    return difference - half, difference + half


def holm(p: Sequence[float]) -> list[float]:
    """p values corrected for multiple tests (Holm 1979); NaN stays NaN and is not counted."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)[: np.count_nonzero(~np.isnan(values))]  # NaN comes last
    corrected = np.full(len(values), np.nan)
    corrected[order] = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1)).clip(max=1.0)
    return [float(value) for value in corrected]


def cohen(a: Array, b: Array, level: float = LEVEL) -> Effect:
    """Cohen's d: the difference of means in pooled standard deviations; the interval inverts the noncentral t law."""
    if min(len(a), len(b)) < 2:
        return UNKNOWN
    freedom = len(a) + len(b) - 2
    pooled = np.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    difference = float(a.mean() - b.mean())
    if np.ptp(a) == np.ptp(b) == 0:
        size = 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
        return Effect(size, size, size)
    scale = float(np.sqrt(1 / len(a) + 1 / len(b)))
    low, high = (scale * _noncentrality(difference / pooled / scale, freedom, (1 + s * level) / 2) for s in (1, -1))
    return Effect(float(difference / pooled), low, high)


def hedges(a: Array, b: Array, level: float = LEVEL) -> Effect:
    """Hedges' g: Cohen's d with its small-sample bias removed."""
    d = cohen(a, b, level)
    correct = 1 - 3 / (4 * (len(a) + len(b) - 2) - 1)
    return Effect(*(correct * value for value in (d.size, d.low, d.high)))


def _noncentrality(t: float, freedom: int, probability: float) -> float:
    """The noncentrality for which P(T ≤ t) equals this probability."""
    if abs(t) > FAR:
        share = probability if t < 0 else 1 - probability
        return float(t * np.sqrt(stats.chi2.ppf(share, freedom) / freedom))

    def excess(noncentrality: float) -> float:
        below = float(stats.nct.cdf(t, freedom, noncentrality))
        known = below if below == below else float(noncentrality < t)  # SciPy: NaN in the far tails
        return known - probability

    wide = 1.0
    while excess(t - wide) < 0 or excess(t + wide) > 0:
        wide *= 2
    return float(optimize.brentq(excess, t - wide, t + wide, xtol=1e-10))


@dataclass(frozen=True)
class Estimate:
    """A statistic with its bootstrap interval; arrays for a profile."""

    value: Array
    low: Array
    high: Array


def interquartile_mean(scores: Array) -> Array:
    """Mean of the middle half of all scores [..., n, T]: the lowest and the highest quarter do not count."""
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
    """A statistic of scores [n, T] with its bootstrap interval; learners are resampled within their strata.

    `statistic` maps [..., n, T] to [...], or to [..., points] for a profile.
    """
    drawn = statistic(scores[resampled(len(scores), strata, resamples)])
    groups = 1 if strata is None else len(np.unique(strata))
    low, high = np.quantile(drawn, widened(len(scores), level, groups), axis=0)
    return Estimate(statistic(scores), low, high)


def mean_band(values: Array, resamples: int = 1000, level: float = LEVEL) -> Estimate:
    """Mean over learners of values [n, …], with the bootstrap interval of every entry; NaN where a value is unknown."""
    drawn, count = resampled(len(values), None, resamples), len(values)
    share = np.stack([np.bincount(row, minlength=count) for row in drawn]) / count
    means = share @ values.reshape(count, -1)
    low, high = (edge.reshape(values.shape[1:]) for edge in np.quantile(means, widened(count, level), axis=0))
    return Estimate(values.mean(axis=0), low, high)


def resampled(count: int, strata: Labels | None, resamples: int, seed: int = 0) -> Labels:
    """int64[resamples, n]: learners drawn with replacement within each stratum, of unchanged size; deterministic."""
    labels = np.zeros(count, np.int64) if strata is None else np.asarray(strata)
    if labels.shape != (count,) or not count:
        raise ValueError(f"strata: wanted one label for each of {count} learners, got shape {labels.shape}")
    random, out = np.random.default_rng(seed), np.empty((resamples, count), np.int64)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        out[:, mine] = mine[random.integers(len(mine), size=(resamples, len(mine)))]
    return out


def profile(scores: Array, thresholds: Array) -> Array:
    """[..., points]: share of all scores [..., n, T] above each threshold."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    return np.stack([(flat > at).mean(axis=-1) for at in thresholds], axis=-1)


def improvement(a: Array, b: Array, level: float = LEVEL) -> Estimate:
    """Probability that a learner of a [n, T] beats one of b [m, T] on the same task, mean over tasks; ties count half.

    It equals Mann–Whitney U / (n·m). The interval is Newcombe's (2006, method 5). Unlike a bootstrap, it has a width
    even if all learners of one sample beat all of the other.
    """
    wins = ((a[:, None] > b) + 0.5 * (a[:, None] == b)).mean(axis=-1)
    value, z = float(wins.mean()), float(stats.norm.ppf((1 + level) / 2))
    low, high = _lower_limit(value, wins.shape, z), 1 - _lower_limit(1 - value, wins.shape, z)
    return Estimate(*(np.asarray(number) for number in (value, low, high)))


def _lower_limit(value: float, sizes: tuple[int, ...], z: float) -> float:
    """The probability below this value whose standard error, times z, reaches up to it."""
    if value == 0:
        return 0.0
    n, m = sizes

    def excess(p: float) -> float:
        variance = p * (1 - p) * (1 + ((n + m) / 2 - 1) * ((1 - p) / (2 - p) + p / (1 + p))) / (n * m)
        return float(value - p - z * np.sqrt(variance))

    return float(optimize.brentq(excess, 0.0, value * (1 - 1e-9)))


@dataclass(frozen=True)
class OrderVariance:
    """Variance components of a score: task order, seed, and the rest (interaction and noise).

    `within` is the variance over orders for one seed, mean over seeds: the effect of the order in a single study.
    `p` tests the hypothesis that all orders have the same mean (two-way analysis of variance).
    """

    order: float
    seed: float
    rest: float
    within: float
    p: float


def order_variance(values: Array) -> OrderVariance:
    """Variance components of scores [seeds, orders]; NaN with fewer than two of either."""
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
