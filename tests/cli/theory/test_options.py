"""Options: what they are converted to, and what is refused."""

from __future__ import annotations

import re

import pytest

from crystalrl.cli.theory.options import Show
from tests.cli.theory.command import run


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("show", "--utility", "2"), "utility must be in [0, 1], got 2"),
        (("show", "--tau-L", "0.8"), "0 < tau_L < tau_C < 1"),
        (("show", "--horizon", "0"), "horizon must be > 0"),
        (("show", "--plot", "law.pdf"), "must end in .png or .svg"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        run(*arguments)


def test_the_options_are_the_constants_of_the_law_and_its_phases() -> None:
    show = Show(alpha=0.1, beta=0.02, sigma=0.03, utility=0.4, interference=0.5, leak=0.001, tau_L=0.2, tau_C=0.6)
    assert (show.law.rates.gain, show.law.rates.loss) == pytest.approx((0.1 * 0.4, 0.02 * 0.5 + 0.001))
    assert show.law.sigma == 0.03
    assert (show.thresholds.tau_L, show.thresholds.tau_C, show.thresholds.band) == (0.2, 0.6, 0.0)


def test_the_last_time_shown_is_five_relaxation_times_unless_it_is_given() -> None:
    assert Show(horizon=12.0).end == 12.0
    assert Show().end == pytest.approx(5 / (0.05 * 0.5 + 0.005 * 0.1 + 0.005**2 / 2))
    assert Show(utility=0.0, interference=0.0, sigma=0.1).end == pytest.approx(5 / (0.1**2 / 2))
    assert Show(utility=0.0, interference=0.0, sigma=0.0).end == 100.0  # nothing ever changes
