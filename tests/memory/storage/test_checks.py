"""What is wrong with a state is named; what is right passes."""

from __future__ import annotations

import pytest
import torch

from crystalrl.memory.storage.checks import MANY, between, booleans, counters, finite, refuse, row_problems
from crystalrl.memory.storage.layout import Layout
from crystalrl.memory.storage.spec import StorageSpec

SPEC = StorageSpec(4, obs={"a": (2,), "door": ()}, action=3, obs_dtype={"a": torch.float32, "door": torch.bool})
LAYOUT = Layout(SPEC)


def test_the_first_value_outside_of_a_range_is_named() -> None:
    values = torch.tensor([0.5, 1.5, float("nan")])
    assert list(between("c", values, 0, 1)) == ["c: wanted values from 0 to 1, got 1.5"]
    assert list(between("c", values[2:], 0, 1)) == ["c: wanted values from 0 to 1, got nan"]
    assert list(between("c", values[:1], 0, 1)) == []


def test_numbers_that_are_not_finite_are_named() -> None:
    assert list(finite("q", torch.tensor([1.0, -torch.inf]))) == ["q: wanted finite numbers, got -inf"]
    assert list(finite("q", torch.zeros(0))) == []


def test_counters_can_be_added_to() -> None:
    state = {"small": torch.tensor([3], dtype=torch.int32), "large": torch.tensor([MANY + 1])}
    assert list(counters(state, "small")) == []
    assert len(list(counters(state, "small", "large"))) == 1


def test_bytes_that_are_no_booleans_are_found() -> None:
    values = torch.tensor([0, 1, 2], dtype=torch.uint8)
    assert list(booleans("door", values[:2].view(torch.bool))) == []
    assert list(booleans("door", values.view(torch.bool))) == ["door: wanted values from 0 to 1, got 2"]


def test_the_first_problem_is_raised() -> None:
    refuse(iter(()), ValueError)
    with pytest.raises(KeyError, match="one"):
        refuse(iter(("one", "two")), KeyError)


@pytest.mark.parametrize(
    ("column", "value"),
    [("obs.a", torch.nan), ("next_obs.a", torch.inf), ("reward", -torch.inf), ("discount", 1.5), ("discount", -0.5),
     ("action", 3), ("action", -1), ("ending", 4)],
)  # fmt: skip
def test_rows_that_add_would_refuse_are_found(column: str, value: float) -> None:
    rows = torch.zeros(1, 4, LAYOUT.words, dtype=torch.int64)
    assert list(row_problems(LAYOUT, 3, rows)) == []
    LAYOUT.torch_views(rows)[column][0, 2] = value
    assert next(row_problems(LAYOUT, 3, rows)).startswith(f"{column}: wanted")


def test_a_byte_of_a_boolean_observation_is_checked() -> None:
    rows = torch.zeros(1, 4, LAYOUT.words, dtype=torch.int64)
    LAYOUT.torch_views(rows)["obs.door"].view(torch.uint8)[0, 1] = 9
    assert list(row_problems(LAYOUT, 3, rows)) == ["obs.door: wanted values from 0 to 1, got 9"]
