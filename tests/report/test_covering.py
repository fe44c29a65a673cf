"""How well the crystals cover the stored states."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report import covering, maps
from crystalrl.study.inspection import Inspected, inspect_run


@pytest.fixture
def one(ran: Path) -> Inspected:
    return inspect_run(ran)[0][0]


def held(states: np.ndarray, phase: np.ndarray, value: np.ndarray) -> dict[str, np.ndarray]:
    columns = {f"v{k}": states[:, k] for k in range(states.shape[1])}
    return {"c": np.zeros(len(phase)), "phase": phase, "discount": np.full(len(phase), 0.9), "value": value, **columns}


def test_the_covering_radius_is_the_largest_distance_to_a_crystal(one: Inspected) -> None:
    states, unknown = np.array([[0.0], [1.0], [2.0], [6.0]]), np.full(4, np.nan)
    contents = held(states, np.array([3, 1, 1, 3]), unknown)
    grid = covering.coverage(replace(one, contents=contents))
    assert grid.lines[0][1] == f"{2 / states.std():.3f}".lstrip("0")
    assert grid.lines[1][1] == f"{3 / 4 / states.std():.3f}".lstrip("0")
    assert len(grid.lines) == 2  # without values there is no estimate
    assert covering.coverage(replace(one, contents={**contents, "phase": np.ones(4)})).lines == []


def test_the_value_error_is_estimated_by_the_stated_formula(one: Inspected) -> None:
    """Values with slope 2 per unit: L = 2 sd, r = 4 / sd, L·r/(1 − γ) = 8 / .1."""
    states = np.arange(12.0)[:, None]
    phase = np.ones(12)
    phase[[3, 7]] = 3
    grid = covering.coverage(replace(one, contents=held(states, phase, 2 * states[:, 0])))
    shown = dict(grid.lines)
    assert shown["L: slope of V between a state and its 5 nearest, 95th percentile"] == f"{2 * states.std():.3f}"
    assert shown["largest slope of V between any two stored states"] == f"{2 * states.std():.3f}"
    assert shown["largest difference of V between a stored state and its nearest crystal, measured"] == "8.000"
    assert shown["estimate of the value error, L·r/(1 − γ) with γ = 0.9"] == "80.000"
    assert "an estimate, not a bound" in " ".join(covering.ABOUT.split())


def test_among_stored_states_values_differ_at_most_by_the_largest_slope_times_the_distance() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        points, value = random.normal(size=(40, 3)), random.normal(size=40)
        slopes = covering.steepness(points, value)
        assert slopes is not None
        apart = np.linalg.norm(points[:, None] - points, axis=-1)
        change = np.abs(value[:, None] - value)
        assert (change <= slopes[1] * apart + 1e-9).all()
        assert (change[apart > 0] / apart[apart > 0]).max() == pytest.approx(slopes[1])
        assert slopes[0] <= slopes[1]
    assert covering.steepness(np.zeros((5, 2)), np.arange(5.0)) is None


def test_without_values_the_page_says_why_there_is_no_estimate(one: Inspected) -> None:
    contents, _ = maps.last_contents(one)
    assert covering.values(contents) is not None
    assert covering.values({**contents, "value": np.full(len(contents["c"]), np.nan)}) is None
