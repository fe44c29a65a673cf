"""How well the crystals cover the stored states, and the bound of the value error."""

from dataclasses import replace
from itertools import combinations
from math import dist, inf, nan
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report import covering, maps
from crystalrl.report.text import Noted
from crystalrl.study.inspection import Inspected, inspect_run

LARGEST, APART = "largest slope of V between any two stored states", "largest difference of V between a stored state"


@pytest.fixture
def one(ran: Path) -> Inspected:
    return inspect_run(ran)[0][0]


def held(states: np.ndarray, phase: np.ndarray, value: np.ndarray, discount: float = 0.9) -> dict[str, np.ndarray]:
    columns = {f"v{k}": states[:, k] for k in range(states.shape[1])}
    told = {"phase": phase, "discount": np.full(len(phase), discount), "value": value}
    return {"c": np.zeros(len(phase)), **told, **columns}


def some_crystals(count: int, *places: int) -> np.ndarray:
    phase = np.ones(count)
    phase[list(places)] = 3
    return phase


def shown(found: Noted, words: str) -> float:
    """The number of the line that begins with these words."""
    (text,) = [cells[1] for cells in found.grid.lines if cells[0].startswith(words)]
    return float(text.replace(",", ""))


def test_the_covering_radius_is_the_largest_distance_to_a_crystal(one: Inspected) -> None:
    states, unknown = np.array([[0.0], [1.0], [2.0], [6.0]]), np.full(4, np.nan)
    contents = held(states, np.array([3, 1, 1, 3]), unknown)
    found = covering.coverage(replace(one, contents=contents))
    assert found.grid.lines[0][1] == f"{2 / states.std():.3f}".lstrip("0")
    assert found.grid.lines[1][1] == f"{3 / 4 / states.std():.3f}".lstrip("0")
    assert len(found.grid.lines) == 2  # without values there is no bound
    assert covering.NO_VALUES in found.notes
    assert covering.coverage(replace(one, contents={**contents, "phase": np.ones(4)})).grid.lines == []


@pytest.mark.parametrize("lipschitz", [None, 3.5])
def test_the_numbers_are_those_of_a_count_over_all_pairs(one: Inspected, lipschitz: float | None) -> None:
    random = np.random.default_rng(0)
    states, value = random.normal(size=(40, 3)) * (1, 10, 0.1), random.normal(size=40)
    crystals = (3, 17, 30)
    contents = held(states, some_crystals(40, *crystals), value)
    found = covering.coverage(replace(one, contents=contents), lipschitz)
    points = states if lipschitz else states / states.std(axis=0)
    radius = max(min(dist(point, points[k]) for k in crystals) for point in points)
    slope = max(abs(value[i] - value[j]) / dist(points[i], points[j]) for i, j in combinations(range(40), 2))
    assert shown(found, "covering radius") == pytest.approx(radius, abs=5e-4)
    assert shown(found, LARGEST) == pytest.approx(slope, abs=5e-4)
    assert shown(found, "bound of the value error") == pytest.approx((lipschitz or slope) * radius / 0.1, abs=5e-4)
    assert found.grid.headings[0] == f"distances in {covering.RAW if lipschitz else covering.SCALED}"


@pytest.mark.parametrize("lipschitz", [None, 2.0])
def test_values_extended_from_the_crystals_err_by_less_than_the_bound(one: Inspected, lipschitz: float | None) -> None:
    """V = 2·|x − x₀| has the Lipschitz constant 2. Every state gets the value of the nearest crystal."""
    random = np.random.default_rng(1)
    for _ in range(20):
        states, crystals = random.uniform(-1, 1, (60, 2)), random.choice(60, 8, replace=False)
        value = 2 * np.linalg.norm(states - states[0], axis=1)
        contents = held(states, some_crystals(60, *crystals), value)
        found = covering.coverage(replace(one, contents=contents), lipschitz)
        points = states if lipschitz else states / states.std(axis=0)
        nearest = crystals[np.linalg.norm(points[:, None] - points[crystals], axis=-1).argmin(axis=1)]
        error = np.abs(value - value[nearest]).max()
        assert shown(found, APART) == pytest.approx(error, abs=5e-4)
        assert 0 < error <= shown(found, "bound of the value error")


@pytest.mark.parametrize("every", [2, 5, 12])
def test_values_learnt_from_crystals_alone_err_by_less_than_the_bound(one: Inspected, every: int) -> None:
    """A line on which one walks left and right. Learning knows only transitions from crystals, and takes every other
    state for its nearest crystal: the operator of the theorem, with ε = 0.
    """
    x = np.linspace(0, 1, 49)
    after = np.stack([np.maximum(np.arange(49) - 1, 0), np.minimum(np.arange(49) + 1, 48)])
    reward, crystals = np.sin(7 * x)[after], np.arange(every // 2, 49, every)
    near = crystals[np.abs(x[:, None] - x[crystals]).argmin(axis=1)]
    true = learnt = np.zeros((2, 49))
    for _ in range(400):
        true = reward + 0.9 * true.max(axis=0)[after]
        learnt = (reward + 0.9 * learnt.max(axis=0)[after])[:, near]
    slope = float(np.abs(np.diff(true)).max() * 48)
    contents = held(x[:, None], some_crystals(49, *crystals), true.max(axis=0))
    found = covering.coverage(replace(one, contents=contents), slope)
    error = np.abs(learnt - true).max()
    assert error > 0.1
    assert error <= shown(found, "bound of the value error")
    assert np.abs(learnt.max(axis=0) - true.max(axis=0)).max() <= error
    assert not any("steeper" in note for note in found.notes)


def test_a_given_constant_is_compared_with_the_stored_values(one: Inspected) -> None:
    states = np.arange(12.0)[:, None]
    contents = held(states, some_crystals(12, 3, 7), 2 * states[:, 0])
    found = covering.coverage(replace(one, contents=contents), 1.5)
    assert found.grid.lines[-1] == [
        "bound of the value error, (L·r + ε)/(1 − γ), with your L = 1.5, ε = 0 and γ = 0.9", "60.000"
    ]  # fmt: skip
    assert "The stored values are steeper than your L: up to 2.000. Either they are wrong" in " ".join(found.notes)
    assert "steeper than your L" not in " ".join(covering.coverage(replace(one, contents=contents), 2.0).notes)


def test_a_memory_without_values_has_a_bound_if_the_constant_is_known(one: Inspected) -> None:
    states = np.arange(12.0)[:, None]
    contents = held(states, some_crystals(12, 3, 7), np.full(12, np.nan))
    assert shown(covering.coverage(replace(one, contents=contents), 1.5), "bound") == 60


@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf])
def test_no_constant_that_is_none(one: Inspected, value: float) -> None:
    with pytest.raises(ValueError, match=f"lipschitz: wanted a finite number above 0, got {value:g}"):
        covering.coverage(one, value)


def test_near_duplicates_that_make_the_bound_are_named(one: Inspected) -> None:
    """V = x, but one state has a neighbour .001 away whose value differs by 1."""
    x = np.append(np.arange(20.0), 5.001)
    contents = held(x[:, None], some_crystals(21, 2, 15), np.append(np.arange(20.0), 6.0))
    found = covering.coverage(replace(one, contents=contents))
    (said,) = [note for note in found.notes if "near-duplicates" in note]
    close, radius = covering.CLOSE, 6 / x.std()
    others = max(
        abs(a - b) / abs(p - q) for (p, a), (q, b) in combinations(zip(x, contents["value"], strict=True), 2)
        if abs(p - q) / x.std() >= close * radius
    )  # fmt: skip
    assert shown(found, LARGEST) == pytest.approx(1000 * x.std(), rel=1e-3)
    assert f"the largest slope is {others * x.std():.3f}" in said
    assert f"the bound would be {others * x.std() * radius / 0.1:.3f}." in said
    smooth = held(x[:, None], some_crystals(21, 2, 15), x)
    assert not any("near-duplicates" in note for note in covering.coverage(replace(one, contents=smooth)).notes)


def test_the_same_observation_with_two_values_is_named(one: Inspected) -> None:
    x = np.append(np.arange(20.0), 5.0)
    contents = held(x[:, None], some_crystals(21, 2, 15), np.append(np.arange(20.0), 5.5))
    found = covering.coverage(replace(one, contents=contents))
    assert shown(found, LARGEST) == pytest.approx(1.5 * x.std(), abs=5e-4)  # from 5.5 at 5 to 4 at 4
    assert "the same observation differ in V by up to .500" in " ".join(found.notes)


def test_without_a_discount_there_is_no_bound(one: Inspected) -> None:
    x = np.arange(9.0)
    found = covering.coverage(replace(one, contents=held(x[:, None], some_crystals(9, 2), x, 1.0)))
    assert found.grid.lines[-1][1] == "none"
    assert found.notes[-1] == "Without a discount (γ = 1) there is no bound."


def test_a_bound_above_the_range_of_values_tells_little(one: Inspected) -> None:
    x = np.arange(9.0)
    wide, narrow = (some_crystals(9, 4), some_crystals(9, *range(9)))
    said = "The stored values differ by at most 8.000: a bound above this tells little."
    assert covering.coverage(replace(one, contents=held(x[:, None], wide, x))).notes[-1] == said
    assert said not in covering.coverage(replace(one, contents=held(x[:, None], narrow, x))).notes


def test_distances_of_a_part_and_of_projections_say_so(one: Inspected) -> None:
    random = np.random.default_rng(0)
    contents = held(random.normal(size=(20, 32)), some_crystals(20, 3), random.normal(size=20))
    first, *_ = covering.coverage(replace(one, contents=contents, stored=90)).notes
    assert "They are of 20 of 90 experiences, evenly spaced over the slots." in first
    assert "estimates from 32 projections" in first
    narrow = held(np.arange(20.0)[:, None], some_crystals(20, 3), np.arange(20.0))
    first, *_ = covering.coverage(replace(one, contents=narrow, stored=20)).notes
    assert first == f"Distances are Euclidean, {covering.ONE}. {covering.ACTIONS}"


def test_numbers_of_any_size_are_readable() -> None:
    assert [covering.amount(value) for value in (0.0, 0.00123, 0.25, 57.27, 123456.7)] == [
        ".000", "1.23e-03", ".250", "57.270", "123,457"
    ]  # fmt: skip


def test_without_values_the_page_says_why_there_is_no_bound(one: Inspected) -> None:
    contents, _ = maps.last_contents(one)
    assert covering.values(contents) is not None
    assert covering.values({**contents, "value": np.full(len(contents["c"]), np.nan)}) is None
