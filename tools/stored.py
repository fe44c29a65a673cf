"""Stored results, and tables of markdown from them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from crystalrl.study.analysis import Results, load_results
from crystalrl.study.stats import summarise

ROOT = Path(__file__).parents[1]
ROWS = {
    "crystalrl, untuned": "default",
    "reservoir": "reservoir",
    "prioritized replay": "PER",
    "uniform replay": "VR",
    "EWC (knows when tasks end)": "EWC",
    "distillation (knows when tasks end)": "reservoir + distillation",
    "the paper, literally": "paper()",
}
"""Row of a table → its name in the results."""


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    lines = [list(head), ["---" for _ in head], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@cache
def results_of(folder: str) -> Results:
    """The results of a folder under `results`, read once."""
    return load_results(ROOT / "results" / folder)


def entry(stored: Iterable[Results], name: str, metric: str = "AP") -> str:
    """Mean and interval, from the first study that has the row; a dash where it was not measured."""
    for row in (row for each in stored for row in each.rows):
        if row.name == name:
            scores = summarise(row.chosen.metrics[metric])
            mean, low, high = (f"{value:z.2f}" for value in (scores.mean, scores.low, scores.high))
            return f"{mean} [{low}, {high}]"
    return "–"
