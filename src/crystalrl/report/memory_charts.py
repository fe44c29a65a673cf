"""Charts of the inside of a memory over time: functions of `Inspected` that return a `Chart`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.report.chart import Chart, columns
from crystalrl.study.inspection import Inspected

PHASES = ("liquid", "glass", "crystal")
MOVES = (
    ("liquid", "glass", ("to_glass",)),
    ("glass", "crystal", ("to_crystal",)),
    ("glass", "liquid", ("to_liquid",)),
    ("crystal", "glass or liquid", ("melted",)),
    ("liquid", "evicted", ("liquid_evicted",)),
    ("glass", "evicted", ("glass_evicted",)),
    ("crystal", "evicted", ("crystal_dropped", "streak_evicted")),
)
"""From, to, and the columns of the memory table that count it."""
BINS = 60
"""Intervals over which numbers of single experiences are averaged."""
RETURN = "return of the episode"
Columns = Mapping[str, NDArray[Any]]


def distribution(one: Inspected) -> Chart:
    """How many experiences of each phase have which c, over time."""
    table = one.histograms or {}
    parts = [part for number in range(1, 4) if (part := _histogram(table, number))] if table else []
    about = "How many experiences have a c in each tenth, at the consolidations; brighter is more, in each phase."
    return Chart(
        "distribution", "Distribution of c in each phase", about, "matrix", columns("matrix", parts),
        x="environment steps", y="c", options={"up": True, "scale": "experiences"},
    )  # fmt: skip


def _histogram(table: Columns, phase: int) -> dict[str, Any]:
    """Counts of a phase in its bins, at no more than `BINS` consolidations, with zeros; nothing if it is empty."""
    steps = np.unique(table["step"])
    shown = steps[np.unique(np.linspace(0, len(steps) - 1, min(BINS, len(steps))).astype(int))]
    mine = (table["phase"] == phase) & np.isin(table["step"], shown)
    if not mine.any():
        return {}
    low, high = int(table["bin"][mine].min()), int(table["bin"][mine].max())
    grid = np.zeros((high - low + 1, len(shown)), int)
    grid[table["bin"][mine] - low, np.searchsorted(shown, table["step"][mine])] = table["count"][mine]
    line, column = (place.ravel() for place in np.indices(grid.shape))
    at = {"panel": PHASES[phase - 1], "line": np.round((line + low + 0.5) / 10, 2), "column": shown[column]}
    return {**at, "value": grid.ravel()}


def phases(one: Inspected) -> Chart:
    """Experiences in each phase over time."""
    memory = one.memory or {}
    parts = [{"row": phase, "x": memory["step"], "y": memory[phase]} for phase in PHASES if memory]
    about = f"Experiences in each phase after every consolidation, of {one.capacity:,} slots."
    return Chart(
        "phases", "Phases and slots used over time", about, "areas", columns("areas", parts), x="environment steps",
        y="experiences", starts=one.starts, options={"own": True},
    )  # fmt: skip


def flows(one: Inspected) -> Chart:
    """Moves between phases during every task."""
    memory = one.memory or {}
    parts = []
    for place, mine in enumerate(_stages(one, memory)):
        for source, target, names in MOVES:
            count = sum(float(np.nansum(memory[name][mine])) for name in names if name in memory)
            at = {"panel": f"during task {place + 1}", "source": source, "target": target}
            parts.append({**at, "value": count})
    about = (
        "Experiences that changed phase or were evicted at the consolidations during each task. Liquid that new "
        "experiences replaced in between is not counted."
    )
    return Chart("flows", "Flow between phases", about, "flow", columns("flow", parts), y="experiences")


def _stages(one: Inspected, table: Columns) -> list[NDArray[np.bool_]]:
    """Lines of a table that belong to each task, in training order."""
    if not table:
        return []
    ends = np.cumsum(one.stage_steps)
    place = np.searchsorted(ends, table["step"], side="left")
    return [place == number for number in range(len(ends)) if (place == number).any()]


def residents(one: Inspected) -> Chart:
    """From which task the crystals come, at the end of every task."""
    parts = []
    for after, held in enumerate(_ends(one), 1):
        crystal = held["phase"] == 3
        count = _crystals_at(one, int(held["step"][0]))
        for task in range(len(one.stage_steps)):
            share = float((held["arrived"][crystal] == task).mean()) if crystal.any() else 0.0
            parts.append({"row": f"from task {task + 1}", "x": after, "y": share * count})
    about = f"Crystals by the task during which they arrived; {_sampled(one)}"
    return Chart(
        "residents", "Where the crystals come from", about, "areas", columns("areas", parts), x="tasks learnt",
        y="crystals", options={"own": True},
    )  # fmt: skip


def _ends(one: Inspected) -> list[Columns]:
    """The contents at the end of each task, in order of time."""
    table = one.contents or {}
    steps = np.unique(table["step"]).tolist() if "step" in table else []
    return [{name: column[table["step"] == step] for name, column in table.items()} for step in steps]


def _crystals_at(one: Inspected, step: int) -> float:
    memory = one.memory or {}
    before = memory["step"] <= step if memory else np.zeros(0, bool)
    return float(memory["crystal"][before][-1]) if before.any() else 0.0


def _sampled(one: Inspected) -> str:
    """What a part of the contents stands for."""
    shown = max((len(held["c"]) for held in _ends(one)), default=0)
    if shown >= one.stored:
        return "all experiences are counted."
    return f"estimated from {shown:,} of {one.stored:,} experiences, evenly spaced over the slots."


def crystals_over_time(one: Inspected) -> Chart:
    """Age, reward and return of the crystals at the end of every task."""
    parts = []
    for after, held in enumerate(_ends(one), 1):
        crystal, unknown = held["phase"] == 3, np.full(len(held["c"]), np.nan)
        shown = {
            "age in steps": held["step"] - held["number"],
            "reward": held["reward"],
            RETURN: held.get("episode_return", unknown),
        }
        for panel, values in shown.items():
            known = values[crystal].astype(float)
            known = known[np.isfinite(known)]
            if len(known):
                low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
                parts.append({"panel": panel, "row": "crystal", "x": after, "y": middle, "low": low, "high": high})
    about = (
        f"Median and middle half of the crystals’ age, reward (over n steps, where n-step returns are stored) and "
        f"{RETURN} in which they arrived. {_about_returns(one)} Here, {_sampled(one)}"
    )
    return Chart(
        "crystals", "Age, reward and return of the crystals", about, "lines", columns("lines", parts),
        x="tasks learnt", options={"free": True, "dots": True, "own": True, "linear": True},
    )  # fmt: skip


def _about_returns(one: Inspected) -> str:
    if "episode_return" not in (one.contents or {}):
        return "The returns of episodes were not recorded in these results."
    return "A return is the sum of an episode’s rewards, undiscounted, of episodes that had ended."


def turnover(one: Inspected) -> Chart:
    """Crystals that formed, melted or were evicted during every task, as shares of those held at its end."""
    memory = one.memory or {}
    parts = []
    for after, mine in enumerate(_stages(one, memory), 1):
        held = max(float(memory["crystal"][mine][-1]), 1.0)
        counts = {"formed": ("to_crystal",), "melted": ("melted",), "evicted": ("crystal_dropped", "streak_evicted")}
        for row, names in counts.items():
            share = sum(float(np.nansum(memory[name][mine])) for name in names if name in memory) / held
            parts.append({"row": row, "x": after, "y": share})
    about = "Crystals that formed, melted or were evicted during a task, relative to the crystals at its end."
    return Chart(
        "turnover", "Turnover of the crystals", about, "lines", columns("lines", parts), x="task",
        y="share of the crystals", options={"dots": True, "own": True},
    )  # fmt: skip


def utility_parts(one: Inspected) -> Chart:
    """What the utility of the stored experiences consists of, over time."""
    table, params = one.followed or {}, one.params
    named = {
        "TD error": ("surprise", params.w1),
        "novelty": ("novelty", params.w2),
        "downstream": ("downstream", params.w3),
    }
    weights = [float(np.max(weight)) for _, weight in named.values()]
    parts: list[Mapping[str, Any]] = []
    for (row, (column, _)), weight in zip(named.items(), weights, strict=True):
        if table:
            x, y = binned(table["step"], weight / max(sum(weights), 1.0) * table[column], float(table["step"].max()))
            parts.append({"row": row, "x": x, "y": y})
    about = "Mean contribution of the scaled TD error, of novelty and of downstream value to the utility U."
    return Chart(
        "utility", "Parts of the utility", about, "areas", columns("areas", parts), x="environment steps", y="mean U",
        starts=one.starts, options={"own": True},
    )  # fmt: skip


def binned(step: NDArray[Any], values: NDArray[Any], last: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Means of values over equal intervals of 0 … last, without unknown ones: end of each interval, and mean."""
    known = np.isfinite(values)
    if not known.any():
        return np.empty(0), np.empty(0)
    place = np.minimum((step[known] / max(last, 1.0) * BINS).astype(int), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    total = np.bincount(place, values[known].astype(float), minlength=BINS)
    filled = count > 0
    return (np.arange(1, BINS + 1) * last / BINS)[filled], total[filled] / count[filled]


def contradictions(one: Inspected) -> Chart:
    """Contradicted experiences, melted crystals and mean interference, over time."""
    memory = one.memory or {}
    named = {"contradicted": "contradicted", "melted": "melted", "mean W of glass and crystal": "suspicion"}
    parts = [
        {"panel": panel, "row": panel, "x": memory["step"], "y": memory[name].astype(float)}
        for panel, name in named.items()
        if name in memory
    ]
    about = "Contradicted experiences and crystals that melted at each consolidation, and the mean interference W."
    return Chart(
        "contradictions", "Contradictions and melting", about, "lines", columns("lines", parts),
        x="environment steps", starts=one.starts, options={"free": True, "own": True, "linear": True, "counts": True},
    )  # fmt: skip


def anchor_error(one: Inspected) -> Chart:
    """How far the network's outputs are from the anchors of glass and crystal, by task: what is being forgotten."""
    table = one.followed or {}
    parts: list[Mapping[str, Any]] = []
    for task in range(len(one.stage_steps)) if "drift" in table else ():
        mine = (table["arrived"] == task) & (table["phase"] > 1)
        x, y = binned(table["step"][mine], table["drift"][mine], float(table["step"].max()))
        parts += [{"row": f"from task {task + 1}", "x": x, "y": y}] if len(x) else []
    about = (
        "Distance of the outputs from the anchors, in standard deviations of the outputs, of followed experiences in "
        "glass and crystal, by the task during which they arrived. A rising line is a task that is being forgotten now."
    )
    return Chart(
        "anchor-error", "Anchor error by task", about, "lines", columns("lines", parts), x="environment steps",
        y="anchor error", starts=one.starts, options={"own": True},
    )  # fmt: skip


def charts(one: Inspected) -> list[Chart]:
    """All charts over time that have data."""
    functions = (
        phases, distribution, flows, residents, crystals_over_time, turnover, utility_parts, contradictions,
        anchor_error,
    )  # fmt: skip
    return [chart for chart in (function(one) for function in functions) if not chart.empty]
