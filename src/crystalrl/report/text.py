"""Results as rows of text, for the terminal, markdown and HTML alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crystalrl.study.analysis import Results, compare
from crystalrl.study.stats import summarise

HEADINGS = {
    "AP": "mean score on all tasks as they are now, at the end",
    "BT": "change since a task was learnt; negative is forgetting",
    "before": "AP before any task was redefined",
    "adapted": "score on the redefined tasks right after learning them",
    "learned": "score on a task right after learning it",
    "task-1 retention": "task 1 at the end of the first pass, as a share of what was learnt",
    "FT random": "zero-shot score minus that of the untrained agent",
    "FT area": "area under the learning curve against learning from scratch (Continual World)",
    "FT paper": "zero-shot score minus the final score from scratch",
    "zero-shot": "score on a task just before learning it",
    "forgetting": "drop from the best score to the end",
    "AP per MB": "AP per megabyte of memory",
}
SHORT = ("before", "adapted", "AP", "BT", "learned", "task-1 retention")
MORE = ("forgetting", "zero-shot", "FT random", "FT area", "FT paper", "AP per MB")


@dataclass(frozen=True)
class Grid:
    """A table of text: one list per line, headings first."""

    headings: list[str]
    lines: list[list[str]]

    def markdown(self) -> str:
        """As a markdown table."""
        rule = ["---"] * len(self.headings)
        return "\n".join("| " + " | ".join(line) + " |" for line in (self.headings, rule, *self.lines)) + "\n"


def main_table(results: Results, names: tuple[str, ...] = SHORT) -> Grid:
    """Mean and 95 % interval of the chosen cell of every row."""
    shown = [name for name in names if name in results.rows[0].chosen.metrics]
    lines = []
    for row in results.rows:
        cells = [interval(row.chosen.metrics[name]) for name in shown]
        lines.append([row.chosen.name, *cells, str(len(row.chosen.seeds))])
    return Grid(["", *shown, "seeds"], lines)


def comparison_table(results: Results, metric: str = "AP") -> Grid:
    """The reference row against every other one."""
    lines = [
        [c.row, f"{c.difference:+.3f}", f"{c.effect:+.2f}", probability(c.p), probability(c.adjusted)]
        for c in compare(results, metric)
    ]
    return Grid([f"{results.reference.name} against", f"Δ {metric}", "Hedges’ g", "Welch p", "Holm p"], lines)


def tuning_table(results: Results, names: tuple[str, ...] = SHORT) -> Grid:
    """Every candidate of the tuned rows: the objective on tuning seeds, and the metrics on the reported seeds."""
    shown = [name for name in names if name in results.rows[0].chosen.metrics]
    lines = []
    for row in results.rows:
        for cell in row.candidates if row.tuned else ():
            mark = " ◂" if cell is row.chosen else ""
            means = [number(float(cell.metrics[name].mean())) for name in shown]
            lines.append([cell.name + mark, f"{row.tuned[cell.name]:.3f}", *means])
    return Grid(["", f"{results.table.objective}, tuning seeds", *shown], lines)


def headline(results: Results) -> str:
    """What was seen, in one sentence."""
    ranked = sorted(results.rows, key=lambda row: -float(row.chosen.metrics["AP"].mean()))
    best, last = ranked[0], ranked[-1]
    means = [float(row.chosen.metrics["AP"].mean()) for row in (best, last)]
    count = len(set(results.tasks))
    if best is last:
        return f"After {count} tasks, {best.chosen.name} scores {means[0]:.2f} on average over all of them."
    return (
        f"After {count} tasks learnt one after the other, {best.chosen.name} still scores {means[0]:.2f} on average "
        f"over all of them; {last.chosen.name} scores {means[1]:.2f}."
    )


def interval(sample: object) -> str:
    """mean [low, high]."""
    values = np.asarray(sample)
    if np.isnan(values).any():
        return "–"
    s = summarise(values)
    return f"{s.mean:.3f} [{s.low:.3f}, {s.high:.3f}]"


def number(value: float) -> str:
    """Three digits; a dash for what is not known."""
    return "–" if value != value else f"{value:.3f}"


def probability(p: float) -> str:
    """A p value, as text."""
    return "–" if p != p else "< .0001" if p < 1e-4 else f"{p:.4f}"
