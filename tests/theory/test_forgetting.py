"""Probabilities of forgetting, at one time and ever."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory.claims.claim import contradicted
from crystalrl.theory.paper import paper_primary_bound

from .oracles import simulate


def test_a_forgetting_probability_of_1e_4_needs_enough_utility() -> None:
    low, high = contradicted(0.058), contradicted(0.059)
    assert low.stationary().cdf(0.3) > 1e-4 > high.stationary().cdf(0.3)
    assert contradicted(0.076, 0.01).stationary().cdf(0.3) > 1e-4 > contradicted(0.077, 0.01).stationary().cdf(0.3)
    assert paper_primary_bound(contradicted(0.5).rates, 0.3) == pytest.approx(3.66e-4, rel=0.01)
    assert paper_primary_bound(contradicted(1.0).rates, 0.3) == pytest.approx(1.53e-4, rel=0.01)


def test_ever_below_is_far_more_likely_than_below_at_the_end() -> None:
    result = contradicted(0.06).forgetting([5000.0, 20_000.0], 0.3, 0.71)
    np.testing.assert_allclose(result.below, 2.6e-5, rtol=0.01)
    np.testing.assert_allclose(result.ever, [0.015, 0.065], atol=5e-4)


def test_forgetting_agrees_with_simulation_within_three_standard_errors() -> None:
    law = contradicted(0.04, 0.02)
    c = simulate(law.rates, 0.71, 200.0, 800, 8000)
    share = np.mean(c < 0.3)
    assert abs(share - law.forgetting(200.0, 0.3, 0.71).below) < 3 * np.sqrt(share * (1 - share) / c.size)


def test_probabilities_too_small_for_a_float_keep_their_logarithm() -> None:
    result = contradicted(0.5).forgetting([250.0, 5000.0], 0.3, 0.71)
    assert result.below_method.tolist() == ["bound", "stationary"]
    assert result.log10_below[1] == pytest.approx(float(contradicted(0.5).stationary().log10_cdf(0.3)))
    assert np.all(np.isfinite(result.log10_below))
    assert result.log10_below[0] <= -1365 / np.log(10) + 1


def test_without_noise_forgetting_is_a_step() -> None:
    result = contradicted(0.0, 0.0).forgetting([100.0, 300.0], 0.3, 0.71)
    assert result.below.tolist() == [0, 1]
    assert result.ever.tolist() == [0, 1]


def test_a_start_below_the_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"c0: wanted a start above tau, got 0\.3 for tau = 0\.7"):
        contradicted(0.5).forgetting(10.0, 0.7, 0.3)
