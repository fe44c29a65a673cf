"""Figures as SVG text. The only module that draws."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from crystalrl.study.analysis import Results

COLOURS = ("#1b6ca8", "#d1495b", "#e3a72f", "#3c8d5a", "#7d5ba6", "#7a7a7a", "#20a4a4", "#b5651d", "#444444", "#c06c84")


def matrix_figure(results: Results) -> str:
    """The learning matrix of every row: score on each task (columns) after each stage (lines)."""
    rows = results.rows
    wide = min(len(rows), 4)
    high = -(-len(rows) // wide)
    figure = Figure(figsize=(2.7 * wide, 2.6 * high), layout="constrained")
    axes = figure.subplots(high, wide, squeeze=False).flatten()
    for axis in axes[len(rows) :]:
        axis.set_axis_off()
    for axis, row in zip(axes, rows, strict=False):
        image = axis.imshow(row.chosen.R.mean(axis=0), vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axis.set_title(row.chosen.name, fontsize=9)
        axis.set_xlabel("score on task", fontsize=8)
        axis.set_ylabel("after learning", fontsize=8)
        axis.set_xticks(range(len(results.tasks)), [str(task + 1) for task in results.tasks], fontsize=7)
        axis.tick_params(labelsize=7)
    figure.colorbar(image, ax=axes.tolist(), shrink=0.7, label="score")
    return _svg(figure)


def course_figure(results: Results) -> str:
    """Mean score on the tasks learnt so far, after each stage, with the middle half of the seeds."""
    figure = Figure(figsize=(7.4, 3.4), layout="constrained")
    axis = figure.subplots()
    count = len(results.tasks)
    for row, colour in zip(results.rows, COLOURS * 9, strict=False):
        so_far = np.stack([row.chosen.R[:, k, :k].mean(axis=1) for k in range(1, count + 1)], axis=1)
        low, high = np.quantile(so_far, [0.25, 0.75], axis=0)
        axis.plot(range(1, count + 1), so_far.mean(axis=0), color=colour, label=row.chosen.name)
        axis.fill_between(range(1, count + 1), low, high, color=colour, alpha=0.12, linewidth=0)
    _finish(axis, "tasks learnt", "mean score on them", count)
    return _svg(figure)


def curve_figure(results: Results) -> str:
    """Score on the task being learnt, along the whole sequence."""
    figure = Figure(figsize=(7.4, 2.8), layout="constrained")
    axis = figure.subplots()
    for row, colour in zip(results.rows, COLOURS * 9, strict=False):
        curve = row.chosen.curve.mean(axis=0)
        at = np.arange(curve.size) / curve.shape[1]
        axis.plot(at, curve.reshape(-1), color=colour, linewidth=1, label=row.chosen.name)
    _finish(axis, "tasks begun", "score on the present task", len(results.tasks))
    return _svg(figure)


def phase_figure(results: Results) -> str | None:
    """Share of the memory in each phase over time, for rows whose memory reports it."""
    names = results.memory["name"]
    phases = [p for p in ("liquid", "glass", "crystal") if (names == p).any()]
    rows = [r for r in results.rows if ((results.memory["cell"] == r.chosen.name) & np.isin(names, phases)).any()]
    if not rows:
        return None
    figure = Figure(figsize=(3.7 * len(rows), 2.8), layout="constrained")
    for axis, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        at, filled = phase_course(results, row.chosen.name, phases)
        axis.stackplot(at, filled, labels=phases, colors=("#8ecae6", "#b8b8d1", "#023e8a"))
        axis.set_title(row.chosen.name, fontsize=9)
        axis.set_xlabel("environment steps", fontsize=8)
        axis.set_ylabel("experiences", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=7, loc="upper left")
    return _svg(figure)


def phase_course(results: Results, cell: str, phases: list[str]) -> tuple[Any, Any]:
    """Steps [k] and mean contents [phases, k] of a cell's memory."""
    memory = results.memory
    steps = np.unique(memory["step"][(memory["cell"] == cell) & (memory["name"] == phases[0])])
    filled = [
        [
            memory["value"][(memory["cell"] == cell) & (memory["name"] == p) & (memory["step"] == s)].mean()
            for s in steps
        ]
        for p in phases
    ]
    return steps, np.array(filled)


def _finish(axis: Any, across: str, up: str, count: int) -> None:
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.set_ylim(-0.03, 1.03)
    axis.set_xlim(0, count)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _svg(figure: Figure) -> str:
    FigureCanvasSVG(figure)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
