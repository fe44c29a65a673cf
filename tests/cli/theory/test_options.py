"""Options: what they are converted to, and what is refused."""

from __future__ import annotations

import pytest

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
    code, text = run(*arguments)
    assert code == 2
    assert reason in text
