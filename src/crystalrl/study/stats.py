"""Statistics over seeds: intervals, tests, effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Sample = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Mean over seeds, standard deviation, and the bootstrap interval of the mean."""

    mean: float
    deviation: float
    low: float
    high: float
    count: int


def summarise(sample: Sample, level: float = 0.95, resamples: int = 10_000) -> Summary:
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
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    difference, error = a.mean() - b.mean(), parts.sum()
    if error == 0:
        return float(difference == 0)
    freedom = error**2 / (parts**2 / [len(a) - 1, len(b) - 1]).sum()
    return float(2 * stats.t.sf(abs(difference) / np.sqrt(error), freedom))


def holm(p: Sequence[float]) -> list[float]:
    """p values adjusted for their number (Holm 1979); NaN stays NaN and is not counted."""
    known = sorted((value, i) for i, value in enumerate(p) if not np.isnan(value))
    adjusted, floor = list(p), 0.0
    for rank, (value, i) in enumerate(known):
        floor = max(floor, min(1.0, (len(known) - rank) * value))
        adjusted[i] = floor
    return adjusted


def hedges(a: Sample, b: Sample) -> float:
    """Hedges' g: the difference of means in pooled standard deviations, corrected for small samples."""
    freedom = len(a) + len(b) - 2
    if min(len(a), len(b)) < 2:
        return float("nan")
    pooled = np.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    difference = float(a.mean() - b.mean())
    if pooled == 0:
        return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    return float(difference / pooled * (1 - 3 / (4 * freedom - 1)))
