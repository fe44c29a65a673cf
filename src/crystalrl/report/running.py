"""Runs that are not finished: how far they are, and their scores so far."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.report.chart import Chart, columns
from crystalrl.report.html import Page, messages
from crystalrl.report.study_charts import banded
from crystalrl.report.text import Grid, number
from crystalrl.study.partial import Partial, unfinished


def running(made: Page, folder: Path, now: float | None = None) -> str:
    """HTML about unfinished and failed runs of a results folder; nothing if there are none."""
    runs = unfinished(folder)
    failed = messages(f"failed: {what}" for what in failures(folder))
    grid = running_table(runs, now or time.time())
    if not grid.lines:
        return failed
    about = "Runs are shown as of their last checkpoint: at the end of every task, and every few minutes."
    drawn = made.figure(course_so_far(runs))
    return f'{made.heading("Running")}{made.table(grid)}<p class="about">{about}</p>{drawn}{failed}'


def running_table(runs: Sequence[Partial], now: float) -> Grid:
    """A line for every cell of every unfinished run."""
    lines = []
    for run in runs:
        for cell in run.cells:
            ago, means = f"{max(0.0, now - run.saved):,.0f} s ago", run.so_far(cell)
            score = float(means[:, -1].mean()) if means.size else float("nan")
            lines.append([cell, str(run.learners), str(run.stage), number(score), ago])
    return Grid(["", "learners in the run", "tasks learnt", "mean score on these", "checkpoint"], lines)


def course_so_far(runs: Sequence[Partial]) -> Chart:
    """Mean score on the tasks learnt so far, of unfinished runs."""
    parts: list[Mapping[str, Any]] = []
    for run in runs:
        for cell in run.cells:
            means = run.so_far(cell)
            if means.size:
                more, _ = banded({cell: means}, np.arange(1, means.shape[1] + 1))
                parts += more
    about = "Mean score on all tasks learnt so far, of the runs that are not finished."
    return Chart(
        "running", "Score so far", about, "lines", columns("lines", parts), x="tasks learnt",
        y="mean score on the tasks so far", limits=(0.0, 1.0), options={"dots": True, "own": True},
    )  # fmt: skip


def failures(folder: Path) -> list[str]:
    """Why learners failed."""
    found = []
    for path in sorted((folder / "failures").glob("*.json")):
        try:
            found += [str(one["what"]) for one in json.loads(path.read_text())]
        except (ValueError, OSError, KeyError, TypeError):
            continue
    return found
