"""Verdicts follow from numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.report.verdicts import VERDICTS, Verdict, interval_half, of_derived, of_difference, of_number, of_sample


@pytest.mark.parametrize(
    ("printed", "low", "high", "verdict"),
    [
        (-13.0, -9.0, -1.0, "same sign"),
        (-13.0, 1.0, 9.0, "other sign"),
        (13.0, 1.0, 9.0, "same sign"),
        (13.0, -9.0, -1.0, "other sign"),
        (13.0, -1.0, 9.0, "undecided"),
        (13.0, 0.0, 9.0, "undecided"),
        (0.0, 1.0, 9.0, "undecided"),
        (13.0, float("nan"), float("nan"), "undecided"),
    ],
)
def test_only_the_side_of_zero_counts_for_a_difference(
    printed: float, low: float, high: float, verdict: Verdict
) -> None:
    assert of_difference(printed, low, high) == verdict


def test_a_printed_mean_is_reproduced_if_the_intervals_overlap() -> None:
    sample = np.random.default_rng(0).normal(80, 2, 50)
    assert of_sample(80.2, 2.4, 50, sample) == "reproduced"
    assert of_sample(85.0, 2.4, 50, sample) == "other value"
    assert of_sample(81.0, None, 50, sample) == "other value"
    assert of_sample(81.0, 2.4, 50, sample) == "reproduced"
    assert of_sample(80.0, 2.4, 50, [80.0, np.nan]) == "not measured"


def test_the_interval_of_a_printed_mean_is_student_s() -> None:
    low, high = stats.t.interval(0.95, 49, loc=0, scale=2.4 / np.sqrt(50))
    assert interval_half(2.4, 50) == pytest.approx(high) == pytest.approx(-low)
    assert interval_half(None, 50) == 0


def test_a_number_without_samples_is_compared_as_far_as_it_is_printed() -> None:
    assert of_number(5, 1, 5.4) == "reproduced"
    assert of_number(5, 1, 5.6) == "other value"
    assert [of_derived(True), of_derived(False)] == ["follows", "does not follow"]
    assert all(VERDICTS.values())
