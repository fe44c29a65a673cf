"""Forgetting: the values, the bounds that hold, and the printed bounds that do not."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization
from crystalrl.theory.paper import paper_explicit_bound, paper_primary_bound

from .oracles import simulate


def attacked(utility: float, sigma: float = 0.005) -> Crystallization:
    """The paper's worst case: interference that never stops."""
    return Crystallization(utility=utility, interference=1.0, sigma=sigma)


@pytest.mark.parametrize(
    ("horizon", "truth", "printed"), [(1000, 0.0388, 0.0213), (5000, 0.0397, 7e-9), (50_000, 0.0397, 4e-82)]
)
def test_the_explicit_bound_of_the_paper_is_violated(horizon: float, truth: float, printed: float) -> None:
    law = attacked(0.05)
    bound = paper_explicit_bound(law.rates, horizon, 0.3, 0.71)
    result = law.forgetting(horizon, 0.3, 0.71)
    # A 1e-82 bound is compared by its order of magnitude.
    assert np.log10(bound) == pytest.approx(np.log10(printed), rel=0.02)
    assert result.below == pytest.approx(truth, abs=1e-4)
    assert result.below > bound


def test_the_primary_bound_of_the_paper_fails_when_the_fixed_point_is_below_the_threshold() -> None:
    weak = attacked(0.02)
    assert paper_primary_bound(weak.rates, 0.3) == pytest.approx(0.029, abs=1e-3)
    result = weak.forgetting(50_000, 0.3, 0.71)
    assert result.below > 0.999
    assert bool(result.certain)
    assert paper_primary_bound(attacked(0.0).rates, 0.3) == pytest.approx(0.0069, abs=1e-4)


def test_the_primary_bound_fails_outside_its_proved_range_and_holds_inside() -> None:
    law = Crystallization(alpha=0.05, utility=0.97, beta=0.0015, interference=1.0, sigma=0.05)
    assert law.stationary().mean == pytest.approx(0.97, abs=1e-3)
    result = law.forgetting(0.1, 0.3, 0.31)
    assert result.below == pytest.approx(0.05, abs=0.03)
    assert result.below > paper_primary_bound(law.rates, 0.3)
    inside = attacked(0.05)
    times = np.array([1.0, 10.0, 100.0, 1000.0, 1e5])
    assert np.all(inside.forgetting(times, 0.3, 0.71).below <= paper_primary_bound(inside.rates, 0.3))


def test_the_claim_of_one_in_ten_thousand_needs_utility() -> None:
    low, high = attacked(0.058), attacked(0.059)
    assert low.stationary().cdf(0.3) > 1e-4 > high.stationary().cdf(0.3)
    assert attacked(0.076, 0.01).stationary().cdf(0.3) > 1e-4 > attacked(0.077, 0.01).stationary().cdf(0.3)
    assert paper_primary_bound(attacked(0.5).rates, 0.3) == pytest.approx(3.66e-4, rel=0.01)
    assert paper_primary_bound(attacked(1.0).rates, 0.3) == pytest.approx(1.53e-4, rel=0.01)


def test_ever_below_is_far_likelier_than_below_at_the_end() -> None:
    result = attacked(0.06).forgetting([5000.0, 20_000.0], 0.3, 0.71)
    np.testing.assert_allclose(result.below, 2.6e-5, rtol=0.01)
    np.testing.assert_allclose(result.ever, [0.015, 0.065], atol=5e-4)


@pytest.mark.parametrize("utility", [0.0, 0.03, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("sigma", [0.005, 0.05])
def test_the_replacement_bounds_hold(utility: float, sigma: float) -> None:
    law = attacked(utility, sigma)
    times = np.array([1.0, 10.0, 60.0, 250.0, 1000.0, 1e5])
    for c0 in (0.35, 0.71, 0.99):
        result = law.forgetting(times, 0.3, c0)
        exact = np.where(result.below_method == "bound", 0, result.below)
        for bound in (result.sub_gaussian, result.cantelli, result.comparison):
            assert np.all(exact <= bound * (1 + 1e-6) + 1e-12)


def test_the_comparison_bound_is_sharp_for_late_times() -> None:
    result = attacked(0.05).forgetting(1e5, 0.3, 0.71)
    assert result.comparison == pytest.approx(result.below, rel=1e-6)
    assert result.sub_gaussian > 5 * result.below


def test_forgetting_agrees_with_simulation_within_three_standard_errors() -> None:
    law = attacked(0.04, 0.02)
    c = simulate(law.rates, 0.71, 200.0, 800, 8000)
    share = np.mean(c < 0.3)
    assert abs(share - law.forgetting(200.0, 0.3, 0.71).below) < 3 * np.sqrt(share * (1 - share) / c.size)


def test_probabilities_too_small_for_a_float_keep_their_logarithm() -> None:
    result = attacked(0.5).forgetting([250.0, 5000.0], 0.3, 0.71)
    assert result.below_method.tolist() == ["bound", "stationary"]
    assert result.log10_below[1] == pytest.approx(float(attacked(0.5).stationary().log10_cdf(0.3)))
    assert np.all(np.isfinite(result.log10_below))
    assert result.log10_below[0] <= -1365 / np.log(10) + 1


def test_without_noise_forgetting_is_a_step() -> None:
    result = attacked(0.0, 0.0).forgetting([100.0, 300.0], 0.3, 0.71)
    assert result.below.tolist() == [0, 1]
    assert result.ever.tolist() == [0, 1]


def test_a_start_below_the_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="c0 must exceed tau"):
        attacked(0.5).forgetting(10.0, 0.7, 0.3)
