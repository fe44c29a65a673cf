"""Verdicts on printed numbers: rules that look at numbers only, not at what we would like."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from crystalrl.study.stats import LEVEL, summarise

Verdict = Literal[
    "reproduced",
    "other value",
    "same sign",
    "other sign",
    "undecided",
    "not comparable",
    "not measured",
    "follows",
    "does not follow",
]
VERDICTS: dict[Verdict, str] = {
    "reproduced": "the same quantity on the same tasks: both 95 % intervals overlap",
    "other value": "the same quantity: they do not, or without intervals, it is another number",
    "same sign": "the same comparison on other tasks: our 95 % interval is on the side of zero that the paper states",
    "other sign": "the same comparison on other tasks: it is on the other side",
    "undecided": "the same comparison on other tasks: it includes zero",
    "not comparable": "measured, but under conditions that decide the number",
    "not measured": "no stored result of ours says anything about it",
    "follows": "a number that the paper computes from its own tables: it is right, given the rounding",
    "does not follow": "such a number: it is wrong, whatever the rounding",
}


def of_sample(printed: float, spread: float | None, seeds: int, sample: ArrayLike) -> Verdict:
    """The same quantity on the same tasks: a printed mean and standard deviation over seeds, and our sample."""
    values = np.asarray(sample, dtype=np.float64)
    if not np.isfinite(values).all():
        return "not measured"
    ours, half = summarise(values), interval_half(spread, seeds)
    return "reproduced" if ours.low <= printed + half and printed - half <= ours.high else "other value"


def interval_half(spread: float | None, seeds: int) -> float:
    """Half of the 95 % interval of a printed mean; 0 without a standard deviation."""
    return 0.0 if spread is None else float(stats.t.ppf((1 + LEVEL) / 2, seeds - 1)) * spread / seeds**0.5


def of_number(printed: float, step: float, ours: float) -> Verdict:
    """The same quantity without samples: equal as far as it is printed."""
    return "reproduced" if abs(ours - printed) <= step / 2 else "other value"


def of_difference(printed: float, low: float, high: float) -> Verdict:
    """The same comparison on other tasks: only the sign of a difference counts, if our interval excludes zero."""
    if not (low > 0 or high < 0) or printed == 0:
        return "undecided"
    return "same sign" if (low > 0) == (printed > 0) else "other sign"


def of_derived(follows: bool) -> Verdict:
    """A number that the paper computes from its own tables."""
    return "follows" if follows else "does not follow"
