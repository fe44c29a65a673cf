"""Results as tables of text, shared by the terminal, markdown and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crystalrl.report.best import FEW, design, significantly_best
from crystalrl.study.analysis import Cell, Results, Row, compare
from crystalrl.study.provenance import Time
from crystalrl.study.stats import (
    Effect,
    Estimate,
    hedges,
    holm,
    interquartile_mean,
    order_variance,
    stratified,
    summarise,
    welch,
    welch_interval,
)

DEFINITIONS = {
    "AP": "mean final score over all tasks, each in its last definition",
    "IQM": "mean of the middle half of all final scores",
    "BT": "change since a task was learnt; negative is forgetting",
    "before": "AP before any task was redefined",
    "adapted": "score on the redefined tasks right after learning them",
    "learned": "score on a task right after learning it",
    "area": "mean height of the learning curves: how fast and how well tasks are learnt",
    "task-1 retention": "score on task 1 at the end of the first pass, relative to its score right after learning it",
    "FT random": "zero-shot score minus the score of the untrained agent",
    "FT area": "area under the learning curve, compared with learning from scratch (Continual World)",
    "FT paper": "zero-shot score minus the final score from scratch",
    "zero-shot": "score on a task just before learning it",
    "forgetting": "drop from the best score to the end",
    "AP per MB": "AP per megabyte of memory",
    "MB": "megabytes that memory and method hold, per learner",
}
SHORT = ("before", "adapted", "AP", "IQM", "BT", "learned", "task-1 retention")
BRIEF = ("before", "adapted", "AP", "IQM", "learned")
"""Metrics that fit the width of a terminal."""
UNDERCOVER = "intervals from so few seeds contain the true value less often than they state"
MORE = ("forgetting", "zero-shot", "FT random", "FT area", "FT paper", "AP per MB", "MB")


@dataclass(frozen=True)
class Grid:
    """A table of text: headings, and one list per line."""

    headings: list[str]
    lines: list[list[str]]
    best: frozenset[tuple[int, int]] = frozenset()
    """Line and column of the numbers that are significantly the best of their column."""

    def markdown(self) -> str:
        """As a markdown table; the best numbers are bold."""
        lines = [
            [f"**{cell}**" if (n, k) in self.best else cell.replace("|", "\\|") for k, cell in enumerate(line)]
            for n, line in enumerate(self.lines)
        ]
        rule = ["---"] * len(self.headings)
        return "\n".join("| " + " | ".join(line) + " |" for line in (self.headings, rule, *lines)) + "\n"


@dataclass(frozen=True)
class Noted:
    """A table, and sentences that say what its numbers mean."""

    grid: Grid
    notes: tuple[str, ...] = ()


def main_table(results: Results, names: tuple[str, ...] = SHORT) -> Grid:
    """Mean and 95 % interval of the reported cell of every row."""
    shown = [name for name in names if name == "IQM" or name in results.rows[0].chosen.metrics]
    lines = []
    for row in results.rows:
        cells = [_middle(row.chosen) if name == "IQM" else interval(row.chosen.metrics[name]) for name in shown]
        lines.append([row.chosen.name, *cells, str(len(row.chosen.seeds))])
    tested = {column: significantly_best(results, name) for column, name in enumerate(shown, 1) if name != "IQM"}
    best = {(results.rows.index(row), column) for column, row in tested.items() if row is not None}
    return Grid(["", *shown, "seeds"], lines, frozenset(best))


def cost_table(results: Results, times: Mapping[str, Time]) -> Grid:
    """What every row forgets and holds, and the seconds in which its learners were trained together."""
    grid = main_table(results, ("forgetting", "AP per MB", "MB"))
    for row, line in zip(results.rows, grid.lines, strict=True):
        spent = times.get(row.name)
        line[-1:] = ["–", "–"] if spent is None else [f"{spent.seconds:.0f}", str(spent.learners)]
    return Grid([*grid.headings[:-1], "seconds", "learners"], grid.lines)


def _middle(cell: Cell) -> str:
    """The interquartile mean over tasks, orders and seeds; the bootstrap resamples seeds."""
    return "–" if np.isnan(cell.final).any() else _estimate(stratified(cell.final, interquartile_mean))


def paper_table(results: Results) -> Grid:
    """Numbers of a paper next to ours, of the rows and metrics for which the study names some."""
    lines = []
    for row in results.rows:
        for metric, value in results.table.paper.get(row.name, {}).items():
            if metric in row.chosen.metrics:
                ours = row.chosen.metrics[metric]
                change = f"{float(ours.mean()) - value:+z.3f}" if np.isfinite(ours).all() else "–"
                lines.append([row.chosen.name, metric, interval(ours), number(float(value)), change])
    return Grid(["", "metric", "ours", "paper", "ours − paper"], lines)


def comparison_table(results: Results, brief: bool = False) -> Grid:
    """The reference compared with every other row, in every metric of the family."""
    lines = []
    for c in compare(results):
        better, d, g = _estimate(c.better), _effect(c.cohen), _effect(c.hedges)
        sizes = [g] if brief else [d, g]
        p = [probability(c.adjusted)] if brief else [probability(c.p), probability(c.adjusted)]
        metric = [] if len(results.family) == 1 else [c.metric]
        lines.append([c.row, *metric, f"{c.difference:+z.3f}", *sizes, better, *p])
    change = [f"Δ {results.family[0]}"] if len(results.family) == 1 else ["metric", "Δ"]
    sizes = ["Hedges’ g"] if brief else ["Cohen’s d", "Hedges’ g"]
    p = ["Holm p"] if brief else ["Welch p", "Holm p"]
    return Grid([f"{results.reference.name} against", *change, *sizes, "P(better)", *p], lines)


def family(results: Results) -> str:
    """What Holm's correction covers, in a sentence."""
    others, metrics = len(results.rows) - 1, results.family
    tests = f"{others * len(metrics)} test{'s' * (others * len(metrics) > 1)}"
    rows = f"{others} other row{'s' * (others > 1)}"
    return f"Holm’s correction covers {tests}: {results.reference.name} against {rows} in {', '.join(metrics)}."


def order_table(results: Results, metric: str = "AP") -> Grid:
    """Effect of the task order on a metric: standard deviations, and a test for differences between orders."""
    lines = []
    for row in results.rows:
        values = row.chosen.by_order[metric]
        if values.shape[1] > 1:
            v = order_variance(values)
            parts = [number(float(np.sqrt(part))) for part in (v.within, v.order, v.seed, v.rest)]
            lines.append([row.chosen.name, str(values.shape[1]), *parts, probability(v.p)])
    return Grid(["", "orders", f"{metric}: sd over orders", "sd, order", "sd, seed", "sd, rest", "p"], lines)


def task_table(results: Results) -> Grid:
    """If tasks are of different kinds: the score on each right after learning it, and at the end."""
    names = results.task_names
    lines = []
    for row in results.rows if names else ():
        R, order = row.chosen.R, row.spec.order
        if len(row.chosen.stored) == 1 and order == 0:
            ends = [(R[:, k + 1, k].mean(), R[:, -1, k].mean()) for k in range(len(names))]
            lines.append([row.chosen.name, *(f"{number(float(then))} → {number(float(now))}" for then, now in ends)])
    return Grid(["", *names], lines)


def sensitivity_table(results: Results, metric: str = "AP") -> Grid:
    """Rows that vary one setting at a time: the metric, and its change from the first values."""
    lines = []
    for name, spec in results.table.rows.items():
        rows = [row for row in results.rows if row.spec is spec] if spec.grid == "each" else []
        base = next((row for row in rows if row.name == name), None)
        for row in rows if base is not None else []:
            own, first = row.chosen.metrics[metric], base.chosen.metrics[metric]  # type: ignore[union-attr]
            change = ["", ""] if row is base else [f"{own.mean() - first.mean():+z.3f}", _effect(hedges(own, first))]
            lines.append([name, row.name.removeprefix(name).strip() or "first values", interval(own), *change])
    return Grid(["", "setting", metric, "change", "Hedges’ g"], lines)


def tuning_table(results: Results, names: tuple[str, ...] = SHORT) -> Grid:
    """All candidates of the tuned rows: the objective on the tuning seeds, and the metrics on the reported seeds."""
    shown = [name for name in names if name in results.rows[0].chosen.metrics]
    lines = []
    for row in results.rows:
        for cell in row.candidates if row.tuned else ():
            mark = " ◂" if cell is row.chosen else ""
            means = [number(float(cell.metrics[name].mean())) for name in shown]
            lines.append([cell.name + mark, f"{row.tuned[cell.name]:.3f}", *means])
    return Grid(["", f"{results.table.objective}, tuning seeds", *shown], lines)


def headline(results: Results) -> str:
    """The main result in a sentence or two, with a test of the lead over the best row of another method."""
    known = [row for row in results.rows if _known(row)]
    if not known:
        return "No row has scores on all tasks yet."
    ranked = sorted(known, key=lambda row: -_mean_of(row))
    best, count = ranked[0], len(set(results.tasks))
    over = " on average over all tasks" if count > 1 else ""
    if len(ranked) == 1:
        return f"After {sequence(count)}, {best.chosen.name} scores {_with_interval(best)}{over}.{_caveat(known)}"
    rest = f"; {ranked[-1].chosen.name} scores {_short(_mean_of(ranked[-1]))}" if len(ranked) > 2 else ""
    others = [row for row in ranked if design(row) != design(best)]
    lead = _lead(results, best, others) if others else f"All rows are settings of one method.{_caveat(known)}"
    return f"After {sequence(count)}, {best.chosen.name} scores {_with_interval(best)}{over}{rest}. {lead}"


def sequence(count: int) -> str:
    """How many tasks are learnt, in words."""
    return f"{count} tasks in sequence" if count > 1 else "one task"


def _lead(results: Results, best: Row, others: Sequence[Row]) -> str:
    """How sure the lead of the best row over the first of the others is."""
    other = others[0]
    p, seeds = _corrected(results, best, others), min(len(row.chosen.seeds) for row in (best, other))
    if seeds < FEW:
        verdict = f"comes from only {seeds} seed{'s' * (seeds > 1)}: chance cannot be ruled out, and {UNDERCOVER}"
    else:
        verdict = "is unlikely to be due to chance" if p < 0.05 else "may be due to chance"
    low, high = welch_interval(best.chosen.metrics["AP"], other.chosen.metrics["AP"])
    lead = f"{_mean_of(best) - _mean_of(other):+z.3f}" + (f" [{low:+z.3f}, {high:+z.3f}]" if low == low else "")
    test = f"{lead}, Welch’s test, Holm p {probability(p)}, {seeds} seed{'s' * (seeds > 1)}"
    rival = f"{other.chosen.name} ({_short(_mean_of(other))})"
    return f"Its lead over the best of another method, {rival}, {verdict} ({test})."


def _caveat(rows: Sequence[Row]) -> str:
    """What few seeds mean for numbers that are compared with no other method."""
    seeds = min(len(row.chosen.seeds) for row in rows)
    if seeds >= FEW:
        return ""
    said = UNDERCOVER if seeds > 1 else "how much scores vary between seeds is not known"
    return f" With only {seeds} seed{'s' * (seeds > 1)}, {said}."


def _corrected(results: Results, best: Row, others: Sequence[Row]) -> float:
    """Holm-corrected p of the best row against the first of the others, in AP.

    If the study tests this pair, its own family applies. Otherwise the best row was chosen from all rows of its method,
    and the other from the rest: the family is all pairs that could have been chosen.
    """
    tested = {best.name, others[0].name} - {results.reference.name}
    if "AP" in results.family and len(tested) == 1:
        return next(c.adjusted for c in compare(results) if c.metric == "AP" and c.row in tested)
    own = [best, *(row for row in results.rows if row is not best and design(row) == design(best) and _known(row))]
    return holm([welch(a.chosen.metrics["AP"], b.chosen.metrics["AP"]) for a in own for b in others])[0]


def _known(row: Row) -> bool:
    return bool(np.isfinite(row.chosen.metrics["AP"]).all())


def _mean_of(row: Row) -> float:
    return float(row.chosen.metrics["AP"].mean())


def _with_interval(row: Row) -> str:
    s = summarise(row.chosen.metrics["AP"])
    return f"{_short(s.mean)} [{_short(s.low)}, {_short(s.high)}]" if s.count > 1 else _short(s.mean)


def _short(value: float) -> str:
    return f"{value:z.2f}"


def design_table(results: Results) -> Grid:
    """Memory and method of each row, and whether the method needs to know when a task ends, and which task it is."""
    lines = []
    for row in results.rows:
        spec = row.spec
        memory = f"{spec.memory}: {row.memory.about}" + (f"; preset {spec.preset}" if spec.preset else "")
        if spec.budget_mb:
            memory += f"; {row.capacity:,} experiences in {spec.budget_mb:g} MB"
        lines.append([row.name, memory, row.method.about, row.method.told])
    return Grid(["", "memory", "method", "needs task boundaries"], lines)


def interval(sample: object) -> str:
    """A sample as mean [low, high]; a dash if any value is unknown."""
    values = np.asarray(sample)
    if np.isnan(values).any():
        return "–"
    s = summarise(values)
    return f"{number(s.mean)} [{number(s.low)}, {number(s.high)}]"


def _estimate(e: Estimate) -> str:
    return f"{number(float(e.value))} [{number(float(e.low))}, {number(float(e.high))}]"


def _effect(e: Effect) -> str:
    return "–" if e.size != e.size else f"{e.size:+z.2f} [{e.low:+z.2f}, {e.high:+z.2f}]"


def number(value: float) -> str:
    """A number with three digits; a dash for NaN."""
    return "–" if value != value else f"{value:z.3f}".replace("0.", ".", 1) if abs(value) < 0.9995 else f"{value:z.3f}"


def probability(p: float) -> str:
    """A p value; a dash for NaN."""
    return "–" if p != p else "< .0001" if p < 1e-4 else f"{p:.4f}"
