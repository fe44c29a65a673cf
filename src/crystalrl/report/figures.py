"""Figures of results, as SVG text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.study.analysis import Results, Row
from crystalrl.study.stats import profile, stratified, summarise

COLOURS = ("#1b6ca8", "#d1495b", "#e3a72f", "#3c8d5a", "#7d5ba6", "#7a7a7a", "#20a4a4", "#b5651d", "#444444", "#c06c84")
PHASES = ("liquid", "glass", "crystal")


def interval_figure(results: Results, metric: str = "AP") -> str:
    """Mean and 95 % interval of every row, one line each, the first at the top."""
    figure = _figure(7.4, 0.6 + 0.3 * len(results.rows))
    axis = figure.subplots()
    for place, row in enumerate(results.rows):
        s = summarise(row.chosen.metrics[metric])
        axis.plot([s.low, s.high], [place, place], color=COLOURS[place % len(COLOURS)], linewidth=5, alpha=0.35)
        axis.plot(s.mean, place, "o", color=COLOURS[place % len(COLOURS)], markersize=6)
    axis.set_yticks(range(len(results.rows)), [row.chosen.name for row in results.rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, max(1.02, *(row.chosen.metrics[metric].max() for row in results.rows)))
    axis.set_xlabel("mean final score on all tasks", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(axis="x", alpha=0.25)
    return _svg(figure)


def write_figure(results: Results, path: Path) -> Path:
    """Write the figure of average performance to an SVG file; the same results give the same bytes."""
    if path.suffix != ".svg":
        raise ValueError(f"figure: wanted a file that ends in .svg, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(interval_figure(results).replace("<svg ", '<svg role="img" ', 1))
    return path


def profile_figure(results: Results) -> str:
    """Performance profiles: the share of learners and tasks above each score, with intervals."""
    figure = _figure(7.4, 3.0)
    axis = figure.subplots()
    finals = [row.chosen.final for row in results.rows]
    at = np.linspace(min(0.0, *(f.min() for f in finals)), max(1.0, *(f.max() for f in finals)), 101)
    for row, colour in zip(results.rows, COLOURS * 9, strict=False):
        e = stratified(row.chosen.final, lambda scores: profile(scores, at), resamples=1000)
        axis.plot(at, e.value, color=colour, label=row.chosen.name)
        axis.fill_between(at, e.low, e.high, color=colour, alpha=0.12, linewidth=0)
    axis.set_xlabel("final score on a task", fontsize=8)
    axis.set_ylabel("share above the score", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=7, ncols=2)
    return _svg(figure)


def matrix_figure(results: Results) -> str:
    """The learning matrix of every row: score on each task (columns) after each stage (rows)."""
    rows = results.rows
    wide = min(len(rows), 4)
    high = -(-len(rows) // wide)
    figure = _figure(2.7 * wide, 2.6 * high)
    axes = figure.subplots(high, wide, squeeze=False).flatten()
    for axis in axes[len(rows) :]:
        axis.set_axis_off()
    for axis, row in zip(axes, rows, strict=False):
        mean = row.chosen.R.mean(axis=0)
        image = axis.imshow(mean, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        if mean.size <= 40:
            _write_numbers(axis, mean)
        axis.set_title(row.chosen.name, fontsize=9)
        axis.set_xlabel("score on task", fontsize=8)
        axis.set_ylabel("tasks learnt", fontsize=8)
        axis.set_xticks(range(len(results.tasks)), [str(task + 1) for task in results.tasks], fontsize=7)
        axis.tick_params(labelsize=7)
    figure.colorbar(image, ax=axes.tolist(), shrink=0.7, label="score")
    return _svg(figure)


def _write_numbers(axis: Any, mean: Any) -> None:
    for (line, column), value in np.ndenumerate(mean):
        colour = "black" if value > 0.6 else "white"
        axis.text(column, line, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)


def course_figure(results: Results) -> str:
    """Mean score on the tasks learnt so far, after each stage, with the quartiles over seeds."""
    figure = _figure(7.4, 3.4)
    axis = figure.subplots()
    count = len(results.tasks)
    for row, colour in zip(results.rows, COLOURS * 9, strict=False):
        so_far = np.stack([row.chosen.R[:, k, :k].mean(axis=1) for k in range(1, count + 1)], axis=1)
        low, high = np.quantile(so_far, [0.25, 0.75], axis=0)
        axis.plot(range(1, count + 1), so_far.mean(axis=0), color=colour, label=row.chosen.name)
        axis.fill_between(range(1, count + 1), low, high, color=colour, alpha=0.12, linewidth=0)
    _finish(axis, "tasks learnt", "mean score on these tasks", count)
    return _svg(figure)


def curve_figure(results: Results) -> str:
    """Score on the current task, over the whole sequence."""
    figure = _figure(7.4, 2.8)
    axis = figure.subplots()
    for row, colour in zip(results.rows, COLOURS * 9, strict=False):
        curve = row.chosen.curve.mean(axis=0)
        at = np.arange(curve.size) / curve.shape[1]
        axis.plot(at, curve.reshape(-1), color=colour, linewidth=1, label=row.chosen.name)
    _finish(axis, "tasks begun", "score on the current task", len(results.tasks))
    return _svg(figure)


def phase_figure(results: Results) -> str | None:
    """Experiences in each phase over time, for rows whose memory reports them; None if there are none."""
    if "liquid" not in results.memory:
        return None
    rows = [row for row in results.rows if np.isfinite(results.memory["liquid"][_of(results, row)]).any()]
    if not rows:
        return None
    figure = _figure(3.7 * len(rows), 2.8)
    for axis, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        axis.stackplot(*phase_course(results, row), labels=PHASES, colors=("#8ecae6", "#b8b8d1", "#023e8a"))
        for start in np.cumsum(row.stage_steps)[:-1]:
            axis.axvline(start, color="white", linewidth=0.8, linestyle=":")
        axis.set_title(row.chosen.name, fontsize=9)
        axis.set_xlabel("environment steps (dotted: a new task)", fontsize=8)
        axis.set_ylabel("experiences", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=7, loc="upper left")
    return _svg(figure)


def phase_course(results: Results, row: Row) -> tuple[Any, Any]:
    """Steps [k] of the consolidations and contents [3, k] of the phases, means over the reported seeds."""
    mine = _of(results, row) & np.isfinite(results.memory["liquid"])
    steps, place = np.unique(results.memory["step"][mine], return_inverse=True)
    filled = [np.bincount(place, results.memory[phase][mine]) / np.bincount(place) for phase in PHASES]
    return steps, np.array(filled)


def _of(results: Results, row: Row) -> Any:
    """Mask of the rows of the memory table that belong to the reported cell and seeds."""
    memory = results.memory
    return np.isin(memory["cell"].astype(str), row.chosen.stored) & np.isin(memory["seed"], row.chosen.seeds)


def _finish(axis: Any, across: str, up: str, count: int) -> None:
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.set_ylim(-0.03, 1.03)
    axis.set_xlim(0, count)
    axis.set_xticks(range(count + 1))
    axis.grid(alpha=0.25)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _figure(width: float, height: float) -> Any:
    """An empty figure. matplotlib is imported here, so that commands without figures start faster."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def _svg(figure: Any) -> str:
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "crystalrl", "svg.fonttype": "none"}):  # the same results give the same bytes
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
