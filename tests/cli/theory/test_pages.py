"""The pages: generated from the claims and the law; the committed ones are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crystalrl.cli.theory.pages import claims_page
from crystalrl.theory.claims import Claim, Place
from tests.cli.theory.command import run

DOCS = Path(__file__).parents[3] / "docs"


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
    run("guide", "--write", str(tmp_path / "choosing-parameters.md"))
    assert_same_page(tmp_path / "choosing-parameters.md", DOCS / "choosing-parameters.md")
    for figure in (tmp_path / "figures").iterdir():
        assert figure.stat().st_size < 200_000
        assert (DOCS / "figures" / figure.name).exists()


def test_the_guide_begins_with_the_recommended_configuration() -> None:
    headings = re.findall(r"^#+ (.*)$", (DOCS / "choosing-parameters.md").read_text(), re.MULTILINE)
    assert headings[:4] == [
        "Choosing parameters", "The recommended configuration", "Slots, tasks and the unit of time", "In words"
    ]  # fmt: skip
    assert headings[4] == "The paper's rule"


def test_claims_are_counted_by_verdict_and_listed_by_section() -> None:
    one, two = (Claim(Place(where, "I", 7, "c"), "|c| < 1", "false", str, "—") for where in ("here", "there"))
    page = claims_page([("First", one, "a|b"), ("First", two, "c"), ("Second", one, "d")])
    assert "3 claims: " in page
    assert "**false** 3 (does not hold)" in page
    assert "**true** 0 (holds as stated)" in page
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["First", "Second"]
    rows = [line for line in page.splitlines() if line.startswith(("| here", "| there"))]
    assert rows[0] == r"| here, I, line 7 | \|c\| < 1 | false | a\|b | — |"
    assert len(rows) == 3
