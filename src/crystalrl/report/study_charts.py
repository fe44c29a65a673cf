"""Charts of a study: functions of `Results` that return a `Chart`, for pages, papers and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crystalrl.report.chart import Chart, columns
from crystalrl.study import metrics
from crystalrl.study.analysis import Results, Row
from crystalrl.study.metrics import Matrix
from crystalrl.study.stats import improvement, mean_band, profile, summarise, welch_interval

PHASES = ("liquid", "glass", "crystal")
SEED_POINTS = 60_000
"""Points of the lines of single seeds in a chart; if there would be more, only the first seeds are drawn."""
BAND = "Shaded: 95 % intervals over seeds."


def average(results: Results, metric: str = "AP") -> Chart:
    """Mean and 95 % interval of every row."""
    return averages({"": results}, metric)


def averages(studies: Mapping[str, Results], metric: str = "AP") -> Chart:
    """Mean and 95 % interval of every row of studies, by their titles."""
    parts = []
    for title, results in studies.items():
        for row in results.rows:
            if len(values := row.chosen.metrics[metric]) and np.isfinite(values).all():
                s = summarise(values)
                name = row.chosen.name if len(studies) == 1 else row.name  # studies may have chosen other values
                parts.append({"panel": title, "row": name, "value": s.mean, "low": s.low, "high": s.high})
    about = "Mean final score on all tasks, with 95 % intervals over seeds."
    data, label = columns("intervals", parts), "mean final score"
    low, top = min([0.0, *data["low"].astype(float)]), max([1.0, *data["high"].astype(float)])
    limits = (low, top) if len(studies) == 1 else None  # scores of several studies may have several units
    options = {"unit": True}
    return Chart("average", "Mean final score", about, "intervals", data, x=label, limits=limits, options=options)


def tasks_over_time(results: Results) -> Chart:
    """The score on every task after each task, whether it was learnt yet or not."""
    parts = []
    for row in results.rows:
        band, count = mean_band(row.chosen.R), row.chosen.R.shape[2]
        for task in range(count):
            at = {"panel": task_label(results, row, task), "row": row.chosen.name, "x": np.arange(count + 1)}
            parts.append(at | {"y": band.value[:, task], "low": band.low[:, task], "high": band.high[:, task]})
    about = f"Score on each task after every task, from before it was learnt to the end. {BAND}"
    return _over_time("tasks-over-time", "Every task over time", about, columns("lines", parts), "score on this task")


def task_label(results: Results, row: Row, stage: int) -> str:
    """The name of a stage in training order; without one, which task it redefines."""
    names, (_, tasks) = results.task_names, row.passes[0]
    named = len(names) == len(results.tasks) and row.spec.order == 0 and row.spec.orders == 1
    if not named and row.spec.orders == 1 and tasks[stage] in tasks[:stage]:
        return f"task {stage + 1}: task {tasks.index(tasks[stage]) + 1} redefined"
    return f"task {stage + 1}: {names[stage]}" if named else f"task {stage + 1}"


def _over_time(name: str, title: str, about: str, data: Mapping[str, Any], y: str) -> Chart:
    return Chart(name, title, about, "lines", data, x="tasks learnt", y=y, limits=_limits(data))


def _limits(data: Mapping[str, Any]) -> tuple[float, float]:
    """0 to 1 for scores; wider if there are others."""
    known = [data[name].astype(float) for name in ("y", "low", "high") if len(data[name])]
    values = np.concatenate([*known, [0.0, 1.0]])
    values = values[np.isfinite(values)]
    return float(values.min()), float(values.max())


def learning_matrix(results: Results) -> Chart:
    """The mean score on each task (columns) after each stage (lines)."""
    parts = []
    for row in results.rows:
        mean = row.chosen.R.mean(axis=0)
        after, task = np.indices(mean.shape)
        parts.append(
            {"panel": row.chosen.name, "line": after.ravel(), "column": task.ravel() + 1, "value": mean.ravel()}
        )
    about = (
        "Line k shows the score on every task after k tasks were learnt. A bright area below the diagonal means that "
        "nothing was forgotten; above the diagonal are tasks that were not learnt yet."
    )
    options = {"panels": "rows"}
    return Chart(
        "learning-matrix", "The learning matrix", about, "matrix", columns("matrix", parts),
        x="score on task", y="tasks learnt", limits=(0.0, 1.0), options=options,
    )  # fmt: skip


def course(results: Results) -> Chart:
    """Mean score on the tasks learnt so far, after each task."""
    samples = {
        row.chosen.name: np.concatenate([metrics.course(R, tasks) for R, tasks in row.passes]) for row in results.rows
    }
    x = np.arange(1, len(results.tasks) + 1)
    parts, note = banded(samples, x)
    latest = "" if len(set(results.tasks)) == len(results.tasks) else ", each in its latest definition"
    about = f"Mean score on all tasks learnt so far{latest}. {BAND}{note}"
    return _over_time(
        "course", "Score on all tasks so far", about, columns("lines", parts), "mean score on the tasks so far"
    )


def banded(samples: Mapping[str, Matrix], x: Any) -> tuple[list[Mapping[str, Any]], str]:
    """Means with bands, and lines of single seeds, of samples [n, points]; and what the text says about the latter."""
    points = sum(values.size for values in samples.values())
    most = max((len(values) for values in samples.values()), default=0)
    shown = most if points <= SEED_POINTS else max(1, most * SEED_POINTS // points)
    parts: list[Mapping[str, Any]] = []
    for name, values in samples.items():
        band = mean_band(values)
        parts.append({"row": name, "x": x, "y": band.value, "low": band.low, "high": band.high})
        parts += [{"row": name, "seed": seed, "x": x, "y": one} for seed, one in enumerate(values[:shown])]
    few = "" if shown >= most else f" Single seeds: only the first {shown} of {most} can be shown."
    return parts, few


def learning_curves(results: Results) -> Chart:
    """Score on the current task, over the whole sequence."""
    curves = {row.chosen.name: row.chosen.curve for row in results.rows if row.chosen.curve.shape[2]}
    parts: list[Mapping[str, Any]] = []
    note = ""
    for shape in dict.fromkeys(curve.shape[1:] for curve in curves.values()):
        x = (np.arange(1, shape[1] + 1) / shape[1] + np.arange(shape[0])[:, None]).ravel()
        mine = {name: c.reshape(len(c), -1) for name, c in curves.items() if c.shape[1:] == shape}
        more, note = banded(mine, x)
        parts += more
    about = (
        "Score on the current task: a memory that protects old tasks too strongly learns new ones late or not at all. "
        f"{BAND}{note}"
    )
    data = columns("lines", parts)
    starts = tuple(range(1, len(results.tasks)))
    return Chart(
        "learning-curves", "Learning each task", about, "lines", data, x="tasks completed",
        y="score on the current task", limits=_limits(data), starts=starts, options={"whole": True},
    )  # fmt: skip


def forgetting_by_task(results: Results) -> Chart:
    """The drop on every task, from its best score since it was learnt to the end."""
    parts = []
    for row in results.rows:
        R = row.chosen.R
        valid = set.intersection(*(set(metrics.current_stages(tasks, len(tasks))) for _, tasks in row.passes))
        stages = sorted(valid - {R.shape[2] - 1})
        if stages:
            drop = np.stack([R[:, k + 1 :, k].max(axis=1) - R[:, -1, k] for k in stages], axis=1)
            band = mean_band(drop)
            at = {"row": row.chosen.name, "x": np.array(stages) + 1}
            parts.append(at | {"y": band.value, "low": band.low, "high": band.high})
    about = (
        f"Drop from the best score since a task was learnt to the end; the last task cannot be forgotten yet. {BAND}"
    )
    data, label = columns("lines", parts), "drop in score"
    return Chart("forgetting", "Forgetting by task", about, "lines", data, x="task", y=label, limits=_limits(data))


def phases(results: Results) -> Chart:
    """Experiences in each phase over time, of the rows whose memory has phases; means over seeds."""
    parts = []
    for row in results.rows if "liquid" in results.memory else ():
        steps, filled = phase_course(results, row)
        named = zip(PHASES, filled, strict=True)
        parts += [{"panel": row.chosen.name, "row": phase, "x": steps, "y": y} for phase, y in named if len(steps)]
    about = (
        "Experiences start as liquid, become glass as they prove useful, then crystal. The height is the number of "
        "slots used. Means over seeds."
    )
    starts = tuple(float(at) for at in np.cumsum(results.rows[0].stage_steps)[:-1])
    return Chart(
        "phases", "Phases and slots used over time", about, "areas", columns("areas", parts), x="environment steps",
        y="experiences", starts=starts, options={"own": True, "panels": "rows"},
    )  # fmt: skip


def phase_course(results: Results, row: Row) -> tuple[Any, Any]:
    """Steps [k] of the consolidations and contents [3, k] of the phases, means over the reported seeds."""
    memory = results.memory
    mine = np.isin(memory["cell"].astype(str), row.chosen.stored) & np.isin(memory["seed"], row.chosen.seeds)
    mine &= np.isfinite(memory["liquid"])
    steps, place = np.unique(memory["step"][mine], return_inverse=True)
    filled = [np.bincount(place, memory[phase][mine]) / np.bincount(place) for phase in PHASES]
    return steps, np.array(filled)


def profiles(results: Results) -> Chart:
    """Performance profiles: the share of learners and tasks above each score."""
    rows = [row for row in results.rows if np.isfinite(row.chosen.final).all()]
    finals = [row.chosen.final for row in rows]
    at = np.linspace(min([0.0, *(f.min() for f in finals)]), max([1.0, *(f.max() for f in finals)]), 101)
    parts = []
    for row in rows:
        e = mean_band(np.stack([profile(one[None], at) for one in row.chosen.final]))  # means of each learner's share
        parts.append({"row": row.chosen.name, "x": at, "y": e.value, "low": e.low, "high": e.high})
    about = f"Share of learners and tasks above each final score; higher is better. {BAND}"
    label = "share above the score"
    return Chart(
        "profiles", "Performance profiles", about, "lines", columns("lines", parts), x="final score on a task", y=label,
        limits=(0.0, 1.0),
    )  # fmt: skip


def better(results: Results, metric: str = "AP") -> Chart:
    """The probability that a learner of one row beats a learner of another, for all pairs."""
    samples = {row.chosen.name: _known(row.chosen.metrics[metric]) for row in results.rows}
    parts = [
        {"line": a, "column": b, "value": float(improvement(x[:, None], y[:, None]).value)}
        for a, x in samples.items()
        for b, y in samples.items()
        if a != b and len(x) and len(y)
    ]
    about = f"Probability that a learner of the row on the left has a higher {metric} than one of the row above."
    return Chart(
        "better", "P(better)", about, "matrix", columns("matrix", parts), x="than", y="a learner of", limits=(0.0, 1.0),
        options={"diverging": True, "rows": True},
    )  # fmt: skip


def _known(values: Matrix) -> Matrix:
    return values[np.isfinite(values)]


def differences(results: Results, metric: str = "AP") -> Chart:
    """Every row minus the reference: ablations (settings of the same method) and other methods apart."""
    base = results.reference
    own = _known(base.chosen.metrics[metric])
    parts = []
    for row in results.rows:
        values = _known(row.chosen.metrics[metric])
        if row is base or not len(values) or not len(own):
            continue
        same = (row.spec.memory, row.spec.method) == (base.spec.memory, base.spec.method)
        low, high = welch_interval(values, own)
        at = {"panel": "ablations and settings" if same else "other methods", "row": row.chosen.name}
        parts.append(at | {"value": float(values.mean() - own.mean()), "low": low, "high": high})
    about = f"{metric} of a row minus {metric} of {base.chosen.name}, with Welch’s 95 % interval."
    return Chart(
        "differences", f"Ablations: change from {base.chosen.name}", about, "intervals", columns("intervals", parts),
        x=f"change in {metric}", options={"zero": True},
    )  # fmt: skip


def sensitivity(results: Results, metric: str = "AP") -> Chart:
    """A metric against the value of every setting of which several numbers were tried, the others unchanged."""
    parts: list[Mapping[str, Any]] = []
    for name, spec in results.table.rows.items():
        cells = {cell.name: cell for row in results.rows if row.spec is spec for cell in row.candidates}
        for setting, tried in _tried(spec).items():
            points = [(float(value), cells[label]) for value, label in _along(name, spec, setting, tried, cells)]
            known = [
                (value, summarise(cell.metrics[metric])) for value, cell in points if _known(cell.metrics[metric]).size
            ]
            if len(known) > 1:
                x, s = zip(*sorted(known, key=lambda pair: pair[0]), strict=True)
                at = {"panel": setting, "row": name, "x": np.array(x), "y": np.array([each.mean for each in s])}
                parts.append(at | {"low": np.array([e.low for e in s]), "high": np.array([e.high for e in s])})
    about = f"{metric} for each value of one setting; the other settings have their first values. {BAND}"
    return Chart(
        "sensitivity", "Sensitivity", about, "lines", columns("lines", parts), x="value", y=metric,
        options={"free": True, "dots": True},
    )  # fmt: skip


def _tried(spec: Any) -> dict[str, Sequence[float]]:
    """Settings of which several numbers were tried."""
    sections = (spec.params, spec.method_params, spec.agent_params)
    listed = {
        name: given for section in sections for name, given in section.items() if isinstance(given, (list, tuple))
    }
    return {name: given for name, given in listed.items() if all(isinstance(v, (int, float)) for v in given)}


def _along(
    name: str, spec: Any, setting: str, tried: Sequence[float], cells: Mapping[str, Any]
) -> list[tuple[Any, str]]:
    """Value and cell for every value of a setting, with the first values of the others."""
    found = []
    for label, variant in spec.variants().items():
        chosen = {**variant.params, **variant.method_params, **variant.agent_params}
        others = {other: values[0] for other, values in _tried(spec).items() if other != setting}
        cell = f"{name} {label}".strip()
        if all(chosen[other] == first for other, first in others.items()) and cell in cells:
            found.append((chosen[setting], cell))
    return found
