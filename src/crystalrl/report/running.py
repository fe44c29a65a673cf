"""Runs that are not finished: how far they are, and their scores so far."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from crystalrl.report.chart import escape
from crystalrl.report.text import Grid, number
from crystalrl.study.partial import Partial, unfinished


def running(folders: Sequence[Path], now: float | None = None) -> str:
    """HTML about unfinished and failed runs of results folders; nothing if there are none."""
    grid = running_table([run for folder in folders for run in unfinished(folder)], now or time.time())
    failed = [f'<p class="message">failed: {escape(what)}</p>' for folder in folders for what in failures(folder)]
    if not grid.lines:
        return "".join(failed)
    head = "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in grid.headings) + "</tr>"
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in grid.lines)
    table = f"<table><thead>{head}</thead><tbody>{lines}</tbody></table>"
    about = "Runs are shown as of their last checkpoint: at the end of every task, and every few minutes."
    return f'<h2>Running</h2><div class="wide">{table}</div><p class="about">{about}</p>' + "".join(failed)


def running_table(runs: Sequence[Partial], now: float) -> Grid:
    """A line for every cell of every unfinished run."""
    lines = []
    for run in runs:
        for cell in run.cells:
            ago = f"{max(0.0, now - run.saved):,.0f} s ago"
            lines.append([cell, str(run.learners), str(run.stage), number(run.score(cell)), ago])
    return Grid(["", "learners in the run", "tasks learnt", "mean score on these", "checkpoint"], lines)


def failures(folder: Path) -> list[str]:
    """Why learners failed."""
    found = []
    for path in sorted((folder / "failures").glob("*.json")):
        try:
            found += [str(one["what"]) for one in json.loads(path.read_text())]
        except (ValueError, OSError, KeyError, TypeError):
            continue
    return found
