"""Time grids and predicted numerical diffusion: against exact moments, a closed form and a solved equation."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization, Options, moments
from crystalrl.theory.path import Schedule, inflation, mean_path
from crystalrl.theory.rates import Rates

STOPS = np.array([0.0, 0.5, 10.0, 200.0])


def test_the_predicted_excess_variance_is_the_measured_one() -> None:
    law = Crystallization(sigma=0.02, utility=0.5, interference=1.0)
    solution = law.evolve([10.0], 0.9, options=Options(cells=200, tolerance=1.0, fineness=3))
    measured = solution.variance()[0] / law.variance(10.0, 0.9) - 1
    assert measured == pytest.approx(solution.variance_error[0], rel=0.25)
    assert measured > 0.01


@pytest.mark.parametrize("fineness", [1.0, 3.0])
@pytest.mark.parametrize("sigma", [0.05, 0.002])
def test_the_grid_contains_every_stop_and_its_steps_are_small_enough(sigma: float, fineness: float) -> None:
    rates, width = Rates(0.025, 0.0005, sigma), 0.01
    path = mean_path(Schedule.constant(rates), 0.1, STOPS, width, fineness)
    assert path.grid[path.is_stop].tolist() == STOPS.tolist()
    assert path.variance_error[0] == 0
    assert path.variance_error.shape == STOPS.shape
    steps = np.diff(path.grid)
    assert np.all(steps > 0)
    moved = np.abs(np.diff(moments.mean(rates, path.grid, 0.1)))
    mean, deviation = (moments.mean(rates, path.grid, 0.1), np.sqrt(moments.variance(rates, path.grid, 0.1)))
    scale = deviation + width * np.sqrt(mean * (1 - mean)) + width**2
    assert np.all(moved <= 1.5 * 0.25 * scale[:-1] / fineness)  # a step before a stop is up to 1.5 times as long
    growth = 0.04 * (path.grid[:-1] + 0.02 * width**2 / rates.noise)
    assert np.all(steps <= 1.5 * growth / fineness + 1e-12)


def test_the_predicted_error_falls_with_the_square_of_the_cells() -> None:
    schedule, stops = Schedule.constant(Rates(0.025, 0.005, 0.02)), np.array([20.0])
    errors = [mean_path(schedule, 0.9, stops, width, 4.0).variance_error[0] for width in (0.004, 0.002, 0.001)]
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.05)


def test_the_inflation_is_x_coth_x_of_half_the_cell_peclet_number() -> None:
    """In the angle θ, c = sin²θ, the diffusion is constant and 2·drift/diffusion = (2A−1)cot θ − (2B−1)tan θ."""
    rates, mean, width = Rates(0.3, 0.1, 0.4), 0.6, 0.05
    a, b = 2 * 0.3 / 0.16, 2 * 0.1 / 0.16
    angle = np.arcsin(np.sqrt(mean))
    half = abs((2 * a - 1) / np.tan(angle) - (2 * b - 1) * np.tan(angle)) * width / 2
    assert inflation(rates, mean, width) == pytest.approx(half / np.tanh(half))
    assert inflation(rates, mean, width) == pytest.approx(1 + half**2 / 3, rel=1e-3)
    assert inflation(rates, mean, 1e-6) == 1


def test_a_schedule_that_becomes_negative_is_refused_at_that_time() -> None:
    schedule = Schedule(lambda t: 1.0 - t, lambda t: 0.1, 0.2)
    assert schedule.at(0.5) == Rates(0.5, 0.1, 0.2)
    with pytest.raises(ValueError, match="gain: wanted a finite number ≥ 0, got -1"):
        schedule.at(2.0)
    with pytest.raises(ValueError, match="gain: wanted"):
        mean_path(schedule, 0.5, np.array([3.0]), 0.01)
