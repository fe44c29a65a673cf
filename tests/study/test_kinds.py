"""The methods by name: their settings, and what they are told."""

from __future__ import annotations

import pytest

from crystalrl import methods
from crystalrl.study.kinds import METHODS, NoParams

NAMES = {
    "her",
    "nec",
    "packnet",
    "pnn",
    "ewc",
    "agem",
    "der",
    "derpp",
    "mir",
    "clonex",
    "clear",
    "recall",
    "si",
    "mas",
    "l2",
    "redo",
    "joint",
    "finetune",
    "distill",
    "none",
}


def test_every_baseline_has_its_name() -> None:
    assert set(METHODS) == NAMES


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_described_and_its_settings_have_defaults(name: str) -> None:
    kind = METHODS[name]
    assert kind.about
    assert kind.params is not None
    assert kind.settings("", {}) == kind.params()


def test_settings_that_may_differ_between_lanes_are_found_by_their_type() -> None:
    assert METHODS["derpp"].per_lane == ("alpha", "beta")
    assert METHODS["ewc"].per_lane == ("strength",)
    assert METHODS["agem"].per_lane == ()
    assert METHODS["none"].params is NoParams


def test_what_a_method_is_told_is_an_attribute_of_its_class() -> None:
    assert METHODS["packnet"].told == "yes, and ids"
    assert METHODS["ewc"].told == "yes"
    assert METHODS["mir"].told == "no"
    assert METHODS["packnet"].method is methods.PackNet
