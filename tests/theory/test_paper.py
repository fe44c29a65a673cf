"""The printed formulas: where they hold and where they fail."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization, paper
from crystalrl.theory.claims.claim import contradicted


def test_the_printed_variance_bound_is_exceeded_twelvefold_at_the_defaults() -> None:
    law = Crystallization()
    ratio = law.variance(43.0, 0.0) / paper.paper_variance_bound(law.rates, 43.0)
    assert ratio == pytest.approx(11.8, abs=0.05)


def test_the_printed_variance_bound_is_zero_without_interference_while_the_variance_is_not() -> None:
    law = Crystallization(interference=0.0)
    assert paper.paper_variance_bound(law.rates, 30.0) == 0
    assert law.variance(30.0, 0.0) == pytest.approx(8.19e-5, rel=1e-3)


def test_the_printed_variance_bound_holds_when_melting_from_above() -> None:
    law = Crystallization(utility=0.5, interference=1.0)
    t = np.linspace(0.1, 400, 300)
    start = float(law.stationary().mean) + 0.05
    assert np.all(law.variance(t, start) <= paper.paper_variance_bound(law.rates, t) * (1 + 1e-9))


def test_the_uniform_variance_bound_holds_from_known_starts_only() -> None:
    law = Crystallization(utility=0.5, interference=1.0)
    bound = paper.paper_uniform_variance_bound(law.rates)
    t = np.linspace(0, 500, 400)
    assert all(np.all(law.variance(t, c0) <= bound) for c0 in np.linspace(0, 1, 21))
    spread_start = law.variance(t, 0.5, 0.25)
    assert t[np.argmax(spread_start <= bound)] == pytest.approx(144, abs=3)


@pytest.mark.parametrize(
    ("horizon", "truth", "printed"), [(1000, 0.0388, 0.0213), (5000, 0.0397, 7e-9), (50_000, 0.0397, 4e-82)]
)
def test_the_explicit_bound_of_the_paper_is_violated(horizon: float, truth: float, printed: float) -> None:
    law = contradicted(0.05)
    bound = paper.paper_explicit_bound(law.rates, horizon, 0.3, 0.71)
    result = law.forgetting(horizon, 0.3, 0.71)
    # A 1e-82 bound is compared by its order of magnitude.
    assert np.log10(bound) == pytest.approx(np.log10(printed), rel=0.02)
    assert result.below == pytest.approx(truth, abs=1e-4)
    assert result.below > bound


def test_the_primary_bound_of_the_paper_fails_when_the_fixed_point_is_below_the_threshold() -> None:
    weak = contradicted(0.02)
    assert paper.paper_primary_bound(weak.rates, 0.3) == pytest.approx(0.029, abs=1e-3)
    result = weak.forgetting(50_000, 0.3, 0.71)
    assert result.below > 0.999
    assert bool(result.certain)
    assert paper.paper_primary_bound(contradicted(0.0).rates, 0.3) == pytest.approx(0.0069, abs=1e-4)


def test_the_primary_bound_fails_outside_its_proved_range_and_holds_inside() -> None:
    law = Crystallization(alpha=0.05, utility=0.97, beta=0.0015, interference=1.0, sigma=0.05)
    assert law.stationary().mean == pytest.approx(0.97, abs=1e-3)
    result = law.forgetting(0.1, 0.3, 0.31)
    assert result.below == pytest.approx(0.05, abs=0.03)
    assert result.below > paper.paper_primary_bound(law.rates, 0.3)
    inside = contradicted(0.05)
    times = np.array([1.0, 10.0, 100.0, 1000.0, 1e5])
    assert np.all(inside.forgetting(times, 0.3, 0.71).below <= paper.paper_primary_bound(inside.rates, 0.3))


def test_the_optimal_allocation_of_the_paper_is_a_maximum() -> None:
    rates = Crystallization().rates
    share = paper.paper_optimal_share(rates)
    assert share == pytest.approx(0.0196, abs=1e-4)
    grid = np.linspace(0, 1, 1001)
    values = paper.paper_objective(rates, grid, 1.0)
    assert grid[np.argmax(values)] == pytest.approx(share, abs=1e-3)
    assert values.argmin() == grid.size - 1
    assert np.all(np.diff(paper.paper_objective_displayed(rates, grid[:-1], 1.0)) > 0)


def test_the_capacity_formula_gives_billions_not_thousands() -> None:
    share = paper.paper_optimal_share(Crystallization().rates)
    assert paper.paper_capacity(0.99, 1, 1, share, 0.05) * np.log(2e6) == pytest.approx(4.5e10, rel=0.01)
    assert paper.paper_q_error(0.99, 1, 1, 0.0625, 6250) == pytest.approx(15.7, abs=0.05)


def test_the_printed_gibbs_weight_is_not_the_stationary_density() -> None:
    law = Crystallization(sigma=0.1)
    c = np.linspace(0.5, 0.95, 10)
    ratio = paper.paper_gibbs_weight(law.rates, c) / law.stationary().pdf(c)
    np.testing.assert_allclose(ratio / ratio[0], c * (1 - c) / 0.25, rtol=1e-9)


def test_the_other_printed_formulas_give_the_known_numbers() -> None:
    assert paper.paper_learning_rate(0.98039) == pytest.approx(3.85e-4, rel=0.01)
    assert paper.paper_covering_radius(16.0) == 0.25
    assert Crystallization().rates.rate / paper.paper_averaging_error() == pytest.approx(127.5)
