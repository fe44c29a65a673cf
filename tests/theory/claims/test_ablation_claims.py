"""Evidence from the ablation and the sensitivity study: orders, counts, and statistics against samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from crystalrl.study.metrics import transfer_over_random, transfer_over_scratch
from crystalrl.theory.claims.ablation_claims import (
    ABLATION,
    CLAIMS,
    costs,
    forward_transfer,
    impacts,
    separation,
    variance_test,
)
from crystalrl.theory.claims.experiment_claims import META
from tests.theory.claims.evidence import assert_has, evidence


def test_the_single_buffer_costs_more_than_the_rate_gate() -> None:
    assert list(costs())[:3] == ["no crystallization", "single buffer", "no phase LR modulation"]
    assert_has(CLAIMS, "Ablation, order", ("13.0", "11.3", "7.6"))
    assert ABLATION["no crystallization"] == (META["PER"][0], META["PER"][2])
    assert "4 of 4" in evidence(CLAIMS, "Table ablation, row 2")


def test_noise_is_not_among_the_two_parameters_of_least_impact() -> None:
    assert list(impacts())[:4] == ["k", "w1", "τ_C", "σ"]
    assert_has(CLAIMS, "Sensitivity, least", ("1.1", "1.6", "2.4", "2.6"))


def test_forward_transfer_is_that_of_the_metrics_of_a_study() -> None:
    """R[seed, after stage, stage]: untrained 0, half of the score before training on a task, all of it afterwards."""
    tasks = 4
    R = np.zeros((1, tasks + 1, tasks))
    for stage in range(tasks):
        R[0, 1:, stage] = 0.5
        R[0, stage + 1 :, stage] = 1.0
    zero_shot = [float(R[0, stage, stage]) for stage in range(tasks)]
    over_scratch, over_random = transfer_over_scratch(R, np.ones((1, tasks))), transfer_over_random(R)
    assert forward_transfer(zero_shot, [1.0] * tasks) == pytest.approx(float(over_scratch[0]))
    assert forward_transfer(zero_shot, [0.0] * tasks) == pytest.approx(float(over_random[0]))
    assert_has(CLAIMS, "Metric FT", (f"{over_scratch[0]:+.1f}", f"{over_random[0]:+.1f}"))


def test_the_separation_gives_the_silhouette_of_sampled_clusters() -> None:
    rng, size = np.random.default_rng(0), 200
    ones, others = rng.standard_normal((2, size, 39))
    others[:, 0] += separation(0.61, 39)
    inside = cdist(ones, ones).sum(axis=1) / (size - 1)
    outside = cdist(ones, others).mean(axis=1)
    assert np.mean((outside - inside) / np.maximum(outside, inside)) == pytest.approx(0.61, abs=0.01)
    assert_has(CLAIMS, "Silhouette", (f"{separation(0.61, 39):.0f}",))


def test_equal_spreads_are_told_apart_as_rarely_as_the_test_says() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 20_000, 6)).std(axis=2, ddof=1)
    ratio = 4.1 / 1.8
    share = np.mean((second / first > ratio) | (first / second > ratio))
    assert variance_test(1.8, 4.1, 6) == pytest.approx(share, abs=0.01)
    assert_has(CLAIMS, "Task orders", (f"{variance_test(1.8, 4.1, 6):.2f}",))


def test_the_cost_of_no_noise_is_tested_as_scipy_does() -> None:
    result = stats.ttest_ind_from_stats(81.7, 2.4, 50, 80.5, 2.5, 50, equal_var=False)
    assert_has(CLAIMS, "Ablation, noise", ("1.2", f"{result.statistic:.1f}", f"{result.pvalue:.3f}"))


def test_settings_are_counted_from_the_tables() -> None:
    """11 rows, 8 ablations, values other than the default (5 − 1 for five parameters, 4 − 1 for two), 5 orders of 2."""
    settings = 11 + 8 + 5 * 4 + 2 * 3 + 5 * 2
    assert_has(CLAIMS, "50 seeds", (f"{settings}", f"{settings * 50:,}", "2.5e+10"))
