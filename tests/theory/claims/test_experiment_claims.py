"""Evidence from the printed tables: the known numbers, and the statistics against samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.theory.claims.experiment_claims import ABLATION, CLAIMS, META, SEEDS, cohen, welch
from tests.theory.claims.evidence import assert_has, evidence


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Table metaworld, bold BT", ("-13.4", "5e-23")),
        ("Table metaworld, p", ("5.5e-07",)),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def sample(mean: float, deviation: float) -> np.ndarray:
    """As many numbers as the paper has seeds, with exactly this mean and standard deviation."""
    drawn = np.random.default_rng(0).normal(size=SEEDS)
    return mean + deviation * (drawn - drawn.mean()) / drawn.std(ddof=1)


def test_effect_size_and_test_from_printed_numbers_are_those_of_samples_with_these_numbers() -> None:
    ours, theirs = META["AMC"][0], META["PER"][0]
    one, two = sample(*ours), sample(*theirs)
    result = stats.ttest_ind(one, two, equal_var=False)
    assert welch(ours, theirs) == pytest.approx((result.statistic, result.pvalue), rel=1e-9)
    pooled = np.sqrt((one.var(ddof=1) + two.var(ddof=1)) / 2)
    assert cohen(ours, theirs) == pytest.approx((one.mean() - two.mean()) / pooled)
    assert_has(CLAIMS, "Meta-World, effect sizes", ("3.73", "1.99"))


def test_the_single_buffer_costs_more_than_the_rate_gate() -> None:
    order = evidence(CLAIMS, "Ablation, order")
    places = [order.index(name) for name in ("no crystallization", "single buffer", "no rate gate")]
    assert places == sorted(places)
    assert_has(CLAIMS, "Ablation, order", ("13.0", "11.3", "7.6"))
    assert ABLATION["no crystallization"] == META["PER"][0][0]


def test_the_reduction_of_forgetting_is_67_percent_against_no_baseline_and_negative_against_the_best() -> None:
    assert_has(CLAIMS, "Table summary, 67 %", ("79.9%", "68.0%", "70.4%", "25.0%", "-200.0%"))
