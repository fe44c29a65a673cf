"""Statistics of two samples of seeds: intervals, tests, effect sizes. `study.aggregate` looks at many tasks at once.

What SciPy and statsmodels have is theirs; here are the cases they leave open (no spread at all, unknown values).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Sample = NDArray[np.float64]

LEVEL = 0.95
"""Of every interval."""
FAR = 1000.0
"""A t beyond which its own noise is nothing beside that of the deviation."""


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


def summarise(sample: Sample, level: float = LEVEL, resamples: int = 10_000) -> Summary:
    """Mean of a sample float64[n] with a percentile bootstrap interval; the resampling is always the same."""
    if not len(sample):
        raise ValueError("sample: wanted at least one number, got none")
    draws = np.random.default_rng(0).integers(len(sample), size=(resamples, len(sample)))
    low, high = np.quantile(sample[draws].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    deviation = float(sample.std(ddof=1)) if len(sample) > 1 else 0.0
    return Summary(float(sample.mean()), deviation, float(low), float(high), len(sample))


def welch(a: Sample, b: Sample) -> float:
    """Two-sided p of Welch's t-test; with no spread at all, 1 if the means agree and 0 if not. NaN below two each."""
    if min(len(a), len(b)) < 2:
        return float("nan")
    if np.ptp(a) == np.ptp(b) == 0:
        return float(a[0] == b[0])
    ours, theirs = ((np.mean(x), np.std(x, ddof=1), len(x)) for x in (a, b))  # one of them may hardly vary
    return float(stats.ttest_ind_from_stats(*ours, *theirs, equal_var=False).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """p values adjusted for their number (Holm 1979); NaN stays NaN and is not counted."""
    from statsmodels.stats.multitest import multipletests

    values = np.asarray(p, dtype=np.float64)
    known = ~np.isnan(values)
    if known.any():
        values[known] = multipletests(values[known], method="holm")[1]
    return [float(value) for value in values]


def cohen(a: Sample, b: Sample, level: float = LEVEL) -> Effect:
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


def hedges(a: Sample, b: Sample, level: float = LEVEL) -> Effect:
    """Hedges' g: Cohen's d without its bias in small samples."""
    d = cohen(a, b, level)
    correct = 1 - 3 / (4 * (len(a) + len(b) - 2) - 1)
    return Effect(*(correct * value for value in (d.size, d.low, d.high)))


def _noncentrality(t: float, freedom: int, probability: float) -> float:
    """The noncentrality under which a t below the given one has this probability."""
    if abs(t) > FAR:
        share = probability if t < 0 else 1 - probability
        return float(t * np.sqrt(stats.chi2.ppf(share, freedom) / freedom))

    def excess(noncentrality: float) -> float:
        below = float(stats.nct.cdf(t, freedom, noncentrality))
        known = below if below == below else float(noncentrality < t)  # SciPy gives NaN far out, where it is 0 or 1
        return known - probability

    wide = 1.0
    while excess(t - wide) < 0 or excess(t + wide) > 0:
        wide *= 2
    return float(optimize.brentq(excess, t - wide, t + wide, xtol=1e-10))
