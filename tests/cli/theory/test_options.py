"""Options: what they are converted to, and what is refused."""

from __future__ import annotations

import re

import pytest

from crystalrl import CrystalParams
from crystalrl.cli.theory.options import Show
from crystalrl.study.registry import presets
from crystalrl.turnover import Climb, steps_between
from tests.cli.theory.command import run


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("show", "--utility", "2"), "utility: wanted a number in [0, 1], got 2"),
        (("show", "--tau-L", "0.8"), "tau_L, tau_C: wanted tau_L < tau_C, got 0.8 and 0.7"),
        (("show", "--preset", "shiny"), "preset: wanted one of anchored, "),
        (("show", "--horizon", "0"), "horizon: wanted a number > 0"),
        (("show", "--plot", "law.pdf"), "figure: wanted a file that ends in .png or .svg"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        run(*arguments)


def test_the_options_are_the_constants_of_the_law_and_its_phases() -> None:
    given = {"alpha": 0.1, "beta": 0.02, "sigma": 0.03, "leak": 0.001, "tau_L": 0.2, "tau_C": 0.6}
    show = Show(preset="repaired", utility=0.4, interference=0.5, **given)
    assert (show.law.rates.gain, show.law.rates.loss) == pytest.approx((0.1 * 0.4, 0.02 * 0.5 + 0.001))
    assert show.law.sigma == 0.03
    assert (show.thresholds.tau_L, show.thresholds.tau_C, show.thresholds.band) == (0.2, 0.6, 0.0)


def test_the_recommended_parameters_are_shown_unless_another_preset_is_named() -> None:
    show = Show(utility=0.5, interference=0.25)
    assert show.params == CrystalParams()
    assert (show.law.rates.gain, show.law.rates.loss) == pytest.approx((0.2 * 0.5 * 0.75, 1.0 * 0.25))
    assert show.steps == 2000
    assert Show(melt=0.1, interference=1.0).law.rates.loss == pytest.approx(0.1)
    assert Show(slots=3000).steps == 300


@pytest.mark.parametrize("name", list(presets()))
def test_every_preset_can_be_shown(name: str) -> None:
    show = Show(preset=name, interference=0.2)
    params = getattr(CrystalParams, name)()
    assert show.params == params
    assert show.thresholds.tau_C == params.tau_C
    climb = Climb.of(params, steps_between(params, show.slots), show.slots, 0.5, 0.2)
    assert (show.law.rates.gain, show.law.rates.loss) == pytest.approx((climb.gain, climb.loss))


def test_where_each_episode_is_a_unit_of_time_steps_follow_from_its_length() -> None:
    assert Show(preset="paper").steps == 5000
    assert Show(preset="paper", episode=200).steps == 200


def test_the_last_time_shown_is_five_relaxation_times_unless_it_is_given() -> None:
    assert Show(horizon=12.0).end == 12.0
    assert Show(preset="paper", interference=0.1).end == pytest.approx(5 / (0.05 * 0.5 + 0.005 * 0.1 + 0.005**2 / 2))
    assert Show(utility=0.0, sigma=0.1).end == pytest.approx(5 / (0.1**2 / 2))
    assert Show(utility=0.0, sigma=0.0).end == 100.0  # nothing ever changes
