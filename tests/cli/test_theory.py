"""The commands: what they print, write and refuse, and that the committed pages are up to date."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from crystalrl.cli.theory import main
from crystalrl.theory import Requirements, Thresholds, design

DOCS = Path(__file__).parents[2] / "docs"


def run(*arguments: str) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=160)
    code = main(list(arguments), console)
    return code, console.file.getvalue()  # type: ignore[attr-defined]


def test_show_prints_the_limit_the_times_and_a_plot() -> None:
    code, text = run("show")
    assert code == 0
    for expected in ("Beta(2000, 40)", "0.98039", "14.32 (2,865 steps)", "49.09 (9,818 steps)", "█", "entrance"):
        assert expected in text


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("extra", [(), ("--sigma", "0"), ("--utility", "0", "--interference", "0", "--c0", "0.4")])
def test_show_writes_a_small_figure(tmp_path: Path, suffix: str, extra: tuple[str, ...]) -> None:
    target = tmp_path / f"law{suffix}"
    code, _ = run("show", "--plot", str(target), *extra)
    assert code == 0
    assert 2_000 < target.stat().st_size < 200_000


def test_figures_are_reproducible(tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        run("show", "--plot", str(tmp_path / name))
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


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


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--lifetime", "10"), "lifetime + maturity must exceed 100000 steps"),
        (("--tau-L", "0.8"), "0 < tau_L < tau_C < 1, got 0.8 and 0.7"),
    ],
)
def test_requirements_that_cannot_be_met_are_refused_by_the_command_line(
    arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run("design", *arguments)
    assert ended.value.code == 2
    assert reason in re.sub(r"[│\s]+", " ", capsys.readouterr().err)


def test_design_prints_parameters_and_their_consequences() -> None:
    needs = Requirements(capacity=10_000, lifetime=100_000, thresholds=Thresholds(tau_C=0.8))
    code, text = run("design", "--capacity", "10000", "--lifetime", "100000", "--tau-C", "0.8")
    assert code == 0
    plan = design(needs)
    for expected in (f"{plan.alpha:.4g}", f"{plan.capacity[2]:,}", "200,000 steps", "33% of those formed in 400,000"):
        assert expected in text


def test_claims_can_be_filtered_by_verdict() -> None:
    code, text = run("claims", "--verdict", "true")
    assert code == 0
    assert "grad_flow" in text
    assert "Discussion, pessimism" not in text


def assert_same_page(made: Path, committed: Path) -> None:
    """Equal text, and numbers equal up to rounding on another processor."""
    number = re.compile(r"(?<![A-Za-z_])[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
    here, there = made.read_text(), committed.read_text()
    assert number.sub("#", here) == number.sub("#", there)
    values = [[float(x.replace(",", "").rstrip(".")) for x in number.findall(text)] for text in (here, there)]
    assert values[0] == pytest.approx(values[1], rel=0.05, abs=2e-3)


def test_the_committed_claims_are_what_the_command_writes(tmp_path: Path) -> None:
    run("claims", "--write", str(tmp_path / "claims.md"))
    assert_same_page(tmp_path / "claims.md", DOCS / "claims.md")
    assert " nan" not in (DOCS / "claims.md").read_text()


@pytest.mark.slow
def test_the_committed_guide_is_what_the_command_writes(tmp_path: Path) -> None:
    code, _ = run("guide", "--write", str(tmp_path / "choosing-parameters.md"))
    assert code == 0
    assert_same_page(tmp_path / "choosing-parameters.md", DOCS / "choosing-parameters.md")
    for figure in (tmp_path / "figures").iterdir():
        assert figure.stat().st_size < 200_000
        assert (DOCS / "figures" / figure.name).exists()


def test_importing_the_theory_does_not_import_matplotlib() -> None:
    code = "import sys, crystalrl.theory, crystalrl.cli.theory; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
