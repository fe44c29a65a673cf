"""Single experiences against the theory, and how long they take to crystallize."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.report.chart import Chart, columns
from crystalrl.report.memory_charts import PHASES
from crystalrl.report.text import Grid
from crystalrl.study.inspection import Inspected
from crystalrl.theory import Crystallization

SHOWN = 9
"""Experiences that are drawn: those followed longest."""
PAPER = {"glass": "~1,000", "crystal": "~10,000", "c = .95": "~50,000"}
"""The paper's Table bio: environment steps until an experience is consolidated."""
ABOUT = (
    "Steps from arrival until c was first seen above a threshold, of followed experiences that were first seen below "
    "it. Those that were evicted or had not got there are not counted, so a typical experience takes longer. The "
    "paper’s numbers are those of its table of biological timescales."
)
Columns = Mapping[str, NDArray[Any]]


def trajectories(one: Inspected) -> Chart:
    """c of single experiences over time, with the mean ± standard deviation of the law with their own rates."""
    parts: list[Mapping[str, Any]] = []
    for life in _longest(one):
        panel = f"experience {int(life['number'][0]):,}"
        mean, deviation = predicted(one, life)
        parts.append({"panel": panel, "row": "measured", "x": life["step"], "y": life["c"].astype(float)})
        band = {"low": np.maximum(mean - deviation, 0), "high": np.minimum(mean + deviation, 1)}
        parts.append({"panel": panel, "row": "law", "x": life["step"], "y": mean, **band})
    about = (
        "Dots: c of the experiences that were followed longest. Line: mean ± standard deviation of the law from their "
        "first c, with the utility, interference and anchor error measured at each consolidation; small noise (σ) "
        "makes a narrow band."
    )
    return Chart(
        "trajectories", "Single experiences against the theory", about, "lines", columns("lines", parts),
        x="environment steps", y="c", limits=(0.0, 1.0), options={"own": True, "marked": "measured"}, starts=one.starts,
    )  # fmt: skip


def lives(one: Inspected) -> Iterator[Columns]:
    """The followed experiences, each with its lines in order of time."""
    table = one.followed or {}
    if not table:
        return
    order = np.lexsort((table["step"], table["number"]))
    number = table["number"][order]
    for at in np.split(order, np.flatnonzero(np.diff(number)) + 1):
        yield {name: column[at] for name, column in table.items()}


def _longest(one: Inspected) -> list[Columns]:
    """Those followed longest, at least for three consolidations, at most three of each task, in order of arrival."""
    found: list[Columns] = []
    for life in sorted(lives(one), key=lambda life: -len(life["step"])):
        same = sum(int(other["arrived"][0]) == int(life["arrived"][0]) for other in found)
        if len(life["step"]) > 2 and same < 3 and len(found) < SHOWN:
            found.append(life)
    return sorted(found, key=lambda life: int(life["number"][0]))


def predicted(one: Inspected, life: Columns) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and standard deviation of c at each consolidation, from the first c."""
    unit = one.params.unit(one.capacity)
    calls = one.params.clock == "calls"
    mean, variance = [float(life["c"][0])], [0.0]
    for k in range(1, len(life["step"])):
        law = _law(one, life, k)
        step = one.params.delta_t if calls else float(life["step"][k] - life["step"][k - 1]) / unit
        variance.append(float(law.variance(step, mean[-1], min(variance[-1], mean[-1] * (1 - mean[-1])))))
        mean.append(float(law.mean(step, mean[-1])))
    return np.array(mean), np.sqrt(np.maximum(variance, 0.0))


def _law(one: Inspected, life: Columns, k: int) -> Crystallization:
    """The law between two consolidations, with the rates that the later one used."""
    drift, settle = float(life["drift"][k]), one.params.settle
    settled = 1.0 if settle is None or drift != drift else float(np.exp(-drift / float(np.max(settle))))
    utility, interference = float(np.clip(life["utility"][k], 0, 1)), float(np.clip(life["interference"][k], 0, 1))
    return Crystallization.of(one.params, utility * settled, interference)


def timescales(one: Inspected) -> Grid:
    """Environment steps from arrival to glass, to crystal and to c = .95: measured, and the paper's."""
    bounds = {"glass": float(np.max(one.params.tau_L)), "crystal": float(np.max(one.params.tau_C)), "c = .95": 0.95}
    found: dict[str, list[float]] = {name: [] for name in bounds}
    for life in lives(one):
        for name, bound in bounds.items():
            above = np.flatnonzero(life["c"] > bound)
            if len(above) and above[0] > 0:  # seen below, then above
                found[name].append(float(life["step"][above[0]] - life["number"][0]))
    lines = []
    for name, times in found.items():
        measured = ["–", "–"]
        if times:
            low, middle, high = np.quantile(times, (0.25, 0.5, 0.75))
            measured = [f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]", f"{len(times):,}"]
        limit = f" (c > {bounds[name]:g})" if name in PHASES else ""
        lines.append([f"to {name}{limit}", *measured, PAPER[name]])
    return Grid(["environment steps", "measured: median [quartiles]", "experiences", "paper’s table"], lines)
