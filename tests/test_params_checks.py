"""Invalid values of every parameter are refused by name."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from crystalrl import CrystalMemory, CrystalParams
from crystalrl.params_checks import require_params

NUMBERS = {
    "alpha": -1, "beta": -1, "sigma": -0.1, "leak": -1, "melt": -1, "settle": 0, "tau_L": -0.1, "tau_C": 1.1,
    "band_L": -1, "band_C": 2, "w1": -0.1, "w2": 1.1, "w3": -1, "Z": 0, "cell": 0, "epsilon": -1, "delta_r": -1,
    "backup": 1.5, "gate": -1, "w_min": 2, "kappa": -1, "anchor_power": -1, "nu": 2, "is_exponent": -1,
    "draws_per_experience": 0, "spare": 1, "delta_t": 0,
}  # fmt: skip
WHOLE = ("k", "sweeps", "slices", "tau_evict", "time_unit", "every", "is_steps", "practice")
CHOICES = ("scale", "novelty", "downstream", "interference", "split", "overflow", "integrator", "clock", "importance")
SWITCHES = ("borrow", "boost", "raw_distance", "project", "warm", "phases", "every_episode")
OPTIONAL = (
    "melt",
    "settle",
    "band_C",
    "epsilon",
    "delta_r",
    "tau_evict",
    "time_unit",
    "every",
    "is_steps",
    "draws_per_experience",
)


def refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"(^|\b){name}\b.*: wanted"):
        CrystalParams.repaired(**{name: value})


def test_every_field_is_tested_here() -> None:
    tested = {*NUMBERS, *WHOLE, *CHOICES, *SWITCHES, "capacity", "batch"}
    assert tested == {field.name for field in fields(CrystalParams)}


@pytest.mark.parametrize("name", list(NUMBERS))
def test_invalid_numbers_are_refused_by_name(name: str) -> None:
    for value in (NUMBERS[name], math.nan, math.inf, "1", True, [], [0.1, "x"], object()):
        refused(name, value)
    if name not in ("band_L", "band_C", "cell", "backup", "draws_per_experience"):
        refused(name, (0.5, NUMBERS[name]))
    else:
        refused(name, (0.1, 0.1))


@pytest.mark.parametrize("name", WHOLE)
def test_invalid_whole_numbers_are_refused_by_name(name: str) -> None:
    for value in (-1, 1.5, "3", True, (1, 2)):
        refused(name, value)
    if name != "practice":
        refused(name, 0)
    if name == "tau_evict":
        refused(name, 256)


@pytest.mark.parametrize("name", [*CHOICES, *SWITCHES])
def test_unknown_choices_are_refused_by_name(name: str) -> None:
    for value in ("unknown", None, 2):
        refused(name, value)


@pytest.mark.parametrize("name", [*NUMBERS, *WHOLE])
def test_none_is_refused_where_it_has_no_meaning(name: str) -> None:
    if name in OPTIONAL:
        CrystalParams.repaired(**{name: None})
    else:
        refused(name, None)


@pytest.mark.parametrize("name", ["capacity", "batch"])
def test_invalid_shares_are_refused(name: str) -> None:
    for value in ((1, 1), (0, 1, 1), (1, -1, 1), (1, 1, math.inf), (1, math.nan, 1), 3, None, "abc"):
        refused(name, value)


@pytest.mark.parametrize("shares", [(1e308, 1e308, 1e308), (5e-324, 0.0, 0.0)])
@pytest.mark.parametrize("name", ["batch", "capacity"])
def test_shares_whose_sum_overflows_or_vanishes_are_refused(name: str, shares: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=f"^{name}: wanted shares whose sum is finite"):
        CrystalParams.repaired(**{name: shares})


@pytest.mark.parametrize("given", ["anchored", {"alpha": 0.2}, 0, CrystalParams.anchored])
def test_anything_but_parameters_is_refused_and_the_call_to_write_is_named(given: object) -> None:
    wanted = r"^params: wanted CrystalParams, such as CrystalParams.anchored\(\), got "
    with pytest.raises(TypeError, match=wanted):
        require_params(given, CrystalParams)
    with pytest.raises(TypeError, match=wanted):
        CrystalMemory(16, obs=(2,), action=2, params=given)  # type: ignore[arg-type]
    require_params(None, CrystalParams)
    require_params(CrystalParams.paper(), CrystalParams)
