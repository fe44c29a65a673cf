"""The commands: which claims they choose, what they refuse, and what they import."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.theory.command import run


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--lifetime", "10"), "lifetime + maturity: wanted more than 100000 steps"),
        (("--tau-L", "0.8"), "tau_L, tau_C: wanted 0 < tau_L < tau_C < 1, got 0.8 and 0.7"),
        (("--tasks", "0"), "tasks: wanted a number > 0, got 0"),
        (("--capacity", "50000"), "options: wanted those of the preset anchored, got some of another"),
        (("--preset", "paper", "--tasks", "3"), "options: wanted those of the preset paper, got some of another"),
    ],
)
def test_requirements_that_cannot_be_met_are_refused_by_the_command_line(
    arguments: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ValueError) as refused:
        run("design", *arguments)
    assert reason in re.sub(r"\s+", " ", str(refused.value))


def test_claims_can_be_filtered_by_verdict() -> None:
    text = run("claims", "--verdict", "true")
    assert "grad_flow" in text
    assert "Discussion, pessimism" not in text


def test_importing_the_theory_does_not_import_matplotlib() -> None:
    code = "import sys, crystalrl.theory, crystalrl.cli.theory; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
