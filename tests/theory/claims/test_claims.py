"""The claims: each named once, with a place in the paper, a verdict, a replacement and computable evidence."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from crystalrl.theory import claims

ROWS = [claim for section in claims.SECTIONS.values() for claim in section]
PAPER = os.environ.get("CRYSTALRL_PAPER", "")
"""Path of the paper's LaTeX source, which is not part of this repository."""
ROMAN = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")


def test_every_claim_is_named_once_with_a_known_verdict_and_a_replacement() -> None:
    assert len(ROWS) == claims.count() >= 120
    assert len({claim.place.name for claim in ROWS}) == len(ROWS)
    assert {claim.verdict for claim in ROWS} == set(claims.VERDICTS)
    assert all(claim.says and claim.instead for claim in ROWS)


def test_every_claim_has_a_section_a_line_and_a_short_quote() -> None:
    for claim in ROWS:
        assert re.fullmatch(r"Abstract|App\. [AB]|[IVX]+(-[A-G])?", claim.place.section), claim.place
        for line, quote in claim.place.quotes:
            assert line > 0, claim.place
            assert 1 <= len(quote.split()) <= 12, claim.place


def test_evidence_can_be_computed_for_a_single_verdict() -> None:
    rows = list(claims.with_evidence("unverifiable"))
    assert len(rows) == claims.count("unverifiable")
    assert all(evidence and "nan" not in evidence for _, _, evidence in rows)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("Thm stationary, proof", "conditional"),
        ("Relaxation time", "conditional"),
        ("Selective melting", "conditional"),
        ("Utility in [0, 1]", "underspecified"),
        ("Alg. 3, boost", "conditional"),
        ("Table phases, replay", "conditional"),
        ("Safe RL, certificate", "unverifiable"),
        ("Table bio", "conditional"),
        ("Metric FT", "conditional"),
    ],
)
def test_a_claim_that_holds_in_some_case_or_cannot_be_checked_is_not_called_false(name: str, verdict: str) -> None:
    (claim,) = [claim for claim in ROWS if claim.place.name == name]
    assert claim.verdict == verdict


def collapsed(text: str) -> str:
    return " ".join(text.split())


def begins_on(lines: list[str], line: int, quote: str) -> bool:
    """Whether the quote begins on this line, counted from 1; it may end on a later one."""
    text = collapsed(" ".join(lines[line - 1 : line + 2]))
    return 0 <= text.find(collapsed(quote)) < len(collapsed(lines[line - 1]))


def sections(lines: list[str]) -> list[str]:
    """The number of the section that each line of a LaTeX source is in, as IEEE prints it; "Abstract" before all."""
    found, numbers, appendix = [], [0, 0], False
    for line in lines:
        if line.startswith("\\appendix"):
            appendix, numbers = True, [0, 0]
        elif line.startswith("\\section{"):
            numbers = [numbers[0] + 1, 0]
        elif line.startswith("\\subsection{"):
            numbers = [numbers[0], numbers[1] + 1]
        top, sub = ("App. " + " ABC"[numbers[0]] if appendix else ROMAN[numbers[0]]), numbers[1]
        found.append((top + (f"-{chr(64 + sub)}" if sub else "")) or "Abstract")
    return found


def test_a_quote_is_found_on_the_line_where_it_begins() -> None:
    lines = ["one two", "  three", "four"]
    assert begins_on(lines, 1, "two three")
    assert begins_on(lines, 2, "three four")
    assert not begins_on(lines, 1, "three")
    assert not begins_on(lines, 3, "five")


def test_sections_are_numbered_as_they_are_printed() -> None:
    source = [
        "a",
        r"\section{x}",
        "b",
        r"\section{y}",
        r"\subsection{z}",
        "c",
        r"\section*{u}",
        r"\appendix",
        r"\section{v}",
    ]
    assert sections(source) == ["Abstract", "I", "I", "II", "II-A", "II-A", "II-A", "App.  ", "App. A"]


@pytest.mark.skipif(not PAPER, reason="CRYSTALRL_PAPER does not name the paper's LaTeX source")
def test_the_quoted_words_stand_in_the_paper_where_each_claim_says() -> None:
    lines = Path(PAPER).read_text().splitlines()
    missing = [claim.place for claim in ROWS for quote in claim.place.quotes if not begins_on(lines, *quote)]
    assert missing == []
    numbered = sections(lines)
    assert [claim.place for claim in ROWS if numbered[claim.place.line - 1] != claim.place.section] == []
