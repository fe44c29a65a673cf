"""The table of docs/reliability.md."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos.attacks import ATTACKS
from tests.chaos.campaign import stored

BLOCK = re.compile(r"(<!-- figures of the campaign -->\n).*?(<!-- end of the figures -->)", re.S)
HEAD = """| attack | an attempt is one of | attempts | held | refused | broken | seed | sources |
|---|---|---:|---:|---:|---:|---:|---|
"""


def render(page: str, results: Path) -> str:
    """The page with the stored figures."""
    if not BLOCK.search(page):
        raise ValueError("page: wanted the markers of the figures, got none")
    return BLOCK.sub(lambda found: f"{found[1]}\n{table(results)}\n{found[2]}", page)


def table(results: Path) -> str:
    return HEAD + "".join(row(name, results) for name in ATTACKS)


def row(name: str, results: Path) -> str:
    attack, tally = ATTACKS[name], stored(results, name)
    if tally is None:
        return f"| {attack.title} | {attack.counts} | – | – | – | – | – | – |\n"
    figures = (tally.attempts, tally.held, tally.refused, tally.broken)
    counted = " | ".join(f"{n:,}" for n in figures)
    return f"| {attack.title} | {attack.counts} | {counted} | {tally.seed} | {tally.sources[:7]} |\n"
