"""From stored scores to samples for a report: one number per seed, for every cell and metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from crystalrl.study import metrics, registry
from crystalrl.study.budget import capacity_for
from crystalrl.study.definition import Table, table_from
from crystalrl.study.kinds import METHODS, Kind, MethodKind
from crystalrl.study.metrics import Matrix
from crystalrl.study.pivot import Columns, by_cell, pivot
from crystalrl.study.plan import stage_order, stage_steps, stage_tasks
from crystalrl.study.spec import RunSpec, read_toml
from crystalrl.study.stats import Effect, Estimate, cohen, hedges, holm, improvement, welch
from crystalrl.study.store import read


@dataclass(frozen=True)
class Cell:
    """Learners of one cell: n seeds in each of O orders; stages are numbered in training order."""

    name: str
    stored: tuple[str, ...]
    """Its names in the stored tables, one per order."""
    seeds: tuple[int, ...]
    R: Matrix
    """[O·n, S + 1, S]: the learning matrix."""
    curve: Matrix
    """[O·n, S, points]: the learning curve of each stage."""
    final: Matrix
    """[n, O·T]: the final score on every task in its last definition."""
    by_order: Mapping[str, Matrix]
    """Metric → [n, O]."""
    metrics: dict[str, Matrix]
    """Metric → [n]: means over orders."""


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    chosen: Cell
    """The reported cell."""
    candidates: tuple[Cell, ...]
    """All cells that it was chosen from."""
    tuned: Mapping[str, float]
    """Cell → objective on the tuning seeds; empty if nothing was tuned."""
    spec: RunSpec

    @property
    def memory(self) -> Kind:
        """The memory's entry in the registry."""
        return registry.MEMORIES[self.spec.memory]

    @property
    def method(self) -> MethodKind:
        """The method's entry in the registry."""
        return METHODS[self.spec.method]

    @property
    def stage_steps(self) -> tuple[int, ...]:
        """Environment steps of each stage, in training order (the first, if there are several)."""
        return stage_steps(self.spec, stage_order(self.spec.suite, self.spec.order))

    @property
    def passes(self) -> list[tuple[Matrix, tuple[int, ...]]]:
        """For every order: its part of R, and the task id of every stage, in training order."""
        tasks, orders = stage_tasks(self.spec.suite), _orders("", self.spec).values()
        trained = [tuple(tasks[stage] for stage in stage_order(self.spec.suite, order)) for order in orders]
        return list(zip(np.split(self.chosen.R, len(trained)), trained, strict=True))

    @property
    def capacity(self) -> int:
        """Experiences per learner; under a budget in megabytes, the largest number that fits."""
        return capacity_for(self.spec).capacity


@dataclass(frozen=True)
class Comparison:
    """The reference compared with another row in one metric."""

    row: str
    metric: str
    difference: float
    """Mean of the reference minus mean of the row."""
    p: float
    """Welch's test."""
    adjusted: float
    """p after Holm's correction over the family."""
    cohen: Effect
    hedges: Effect
    better: Estimate
    """Probability that a learner of the reference beats a learner of the row."""


@dataclass(frozen=True)
class Results:
    """The contents of a results folder."""

    table: Table
    tasks: tuple[int, ...]
    """Task id of every stage."""
    rows: tuple[Row, ...]
    memory: Columns
    """The memory table; empty if it was not stored."""
    problems: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def family(self) -> tuple[str, ...]:
        """Metrics that Holm's correction covers together."""
        return self.table.family

    @property
    def reference(self) -> Row:
        """The row that all others are tested against."""
        return next((row for row in self.rows if row.name == self.table.reference), self.rows[0])

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of rows without stored results."""
        stored = {row.name for row in self.rows}
        return tuple(name for name, spec in self.table.rows.items() if not spec.scratch and name not in stored)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The reference against every other row, computed once: pages and formats show it several times."""
        return _compared(self)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks; empty if they are all of one kind."""
        return registry.task_names(self.table.suite)

    @property
    def suite_note(self) -> str:
        """What the tasks and the score are, in a sentence or two."""
        return registry.suite_note(self.table.suite)


def load_results(folder: str | Path, lenient: bool = False) -> Results:
    """Everything that a report needs, from a results folder; lenient: without parts that cannot be read."""
    path = Path(folder) / "spec.toml"
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: wanted a folder of results, found no spec.toml")
    table = table_from(read_toml(path))
    problems: list[str] = []
    stored = _Stored(folder, table, problems if lenient else None)
    names = [name for name, spec in table.rows.items() if not spec.scratch and stored.cells(name)]
    rows = tuple(row for name in names for row in _rows(stored, name))
    if not rows:
        raise FileNotFoundError("; ".join([f"{folder}: wanted results of at least one row, found none yet", *problems]))
    return Results(table, stored.tasks, rows, stored.memory, tuple(problems))


def compare(results: Results) -> tuple[Comparison, ...]:
    """Compare the reference with every other row in every metric of the family, corrected together."""
    return results.comparisons


def _compared(results: Results) -> tuple[Comparison, ...]:
    own = results.reference.chosen.metrics
    others = [row for row in results.rows if row is not results.reference]
    pairs = [(row.name, metric, own[metric], row.chosen.metrics[metric]) for metric in results.family for row in others]
    p = [welch(a, b) for _, _, a, b in pairs]
    return tuple(
        Comparison(
            name,
            metric,
            float(a.mean() - b.mean()),
            raw,
            adjusted,
            cohen(a, b),
            hedges(a, b),
            improvement(a[:, None], b[:, None]),
        )
        for (name, metric, a, b), raw, adjusted in zip(pairs, p, holm(p), strict=True)
    )


class _Stored:
    """The stored tables of a folder, by cell."""

    def __init__(self, folder: str | Path, table: Table, problems: list[str] | None) -> None:
        """problems: list to which unreadable parts are added; None: they are errors."""
        self.table, self.tasks = table, stage_tasks(table.suite)
        self.scores, self.curves = (read(folder, name, problems) for name in ("scores", "curves"))
        self.memory: Columns = read(folder, "memory", problems) if (Path(folder) / "memory.parquet").is_dir() else {}
        self.places = {name: by_cell(getattr(self, name)) for name in ("scores", "curves", "memory")}
        scratch = [cell for name, spec in table.rows.items() if spec.scratch for cell in self.cells(name)]
        self.scratch = scratch[0] if scratch else None

    def cells(self, method: str) -> list[str]:
        """Cells of a row, in the order in which they ran."""
        firsts = {cell: self.scores["method"][at[0]] for cell, at in self.places["scores"].items()}
        return [cell for cell, own in firsts.items() if own == method]

    def has(self, cell: str, spec: RunSpec) -> bool:
        """Whether every order of a variant is stored."""
        return set(_orders(cell, spec)) <= set(self.places["scores"])

    def finished(self, cells: Iterable[str], seeds: Sequence[int]) -> tuple[int, ...]:
        """The seeds that are stored for all these cells: not those that failed."""
        held = [set(np.unique(self.scores["seed"][self.places["scores"][cell]]).tolist()) for cell in cells]
        return tuple(seed for seed in seeds if all(seed in one for one in held))

    def matrix(self, cell: str, seeds: Sequence[int]) -> Matrix:
        """R float64[n, S + 1, S]; NaN for missing scores."""
        count = len(self.tasks)
        mine = {name: self.scores[name][self.places["scores"][cell]] for name in ("seed", "after", "task", "score")}
        return pivot(mine, seeds, ("after", "task"), (count + 1, count))

    def curve(self, cell: str, seeds: Sequence[int]) -> Matrix:
        """Learning curves float64[n, S, points]."""
        place = self.places["curves"].get(cell, np.empty(0, np.int64))
        mine = {name: self.curves[name][place] for name in ("seed", "task", "step", "score") if self.curves}
        point = np.zeros(len(place), dtype=np.int64)
        for task in range(len(self.tasks) if len(place) else 0):  # tasks may have their own numbers of steps
            own = mine["task"] == task
            point[own] = np.unique(mine["step"][own], return_inverse=True)[1]
        shape = (len(self.tasks), int(point.max(initial=-1)) + 1)
        return (
            pivot({**mine, "point": point}, seeds, ("task", "point"), shape)
            if len(place)
            else np.empty((len(seeds), *shape))
        )

    def nbytes(self, cell: str) -> float:
        """Bytes of memory per learner; NaN without the memory table, which published results may omit for its size."""
        mine = self.places["memory"].get(cell)
        return np.nan if mine is None else float(self.memory["nbytes"][mine[0]])


def _rows(stored: _Stored, name: str) -> list[Row]:
    """One row with the cell that is best on the tuning seeds; without tuning, a row for every variant."""
    table, spec = stored.table, stored.table.rows[name]
    variants = {f"{name} {label}".strip(): variant for label, variant in spec.variants().items()}
    cells = {cell: variant for cell, variant in variants.items() if stored.has(cell, variant)}
    cells = {cell: variant for cell, variant in cells.items() if stored.finished(_orders(cell, variant), spec.seeds)}
    if not cells:
        return []
    reported = {cell: _cell(stored, cell, variant, spec.seeds) for cell, variant in cells.items()}
    if len(cells) == 1 or not table.tuned(spec):
        return [Row(cell, data, (data,), {}, spec) for cell, data in reported.items()]
    tuning = {cell: _cell(stored, cell, variant, table.tuning_seeds) for cell, variant in cells.items()}
    tuned = {cell: float(data.metrics[table.objective].mean()) for cell, data in tuning.items()}
    best = max(cells, key=lambda cell: tuned[cell])
    return [Row(name, reported[best], tuple(reported.values()), tuned, spec)]


def _cell(stored: _Stored, cell: str, spec: RunSpec, seeds: tuple[int, ...]) -> Cell:
    """A variant with all its orders."""
    names = _orders(cell, spec)
    seeds = stored.finished(names, seeds)
    parts = [_one_order(stored, name, order, seeds) for name, order in names.items()]
    by_order = {metric: np.stack([part.metrics[metric] for part in parts], axis=1) for metric in parts[0].metrics}
    R, curve = (np.concatenate([getattr(part, field) for part in parts]) for field in ("R", "curve"))
    final = np.concatenate([part.final for part in parts], axis=1)
    means = {metric: values.mean(axis=1) for metric, values in by_order.items()}
    return Cell(cell, tuple(names), seeds, R, curve, final, by_order, means)


def _orders(cell: str, spec: RunSpec) -> dict[str, int]:
    """Stored name of a variant in each of its orders → the order."""
    if spec.orders == 1:
        return {cell: spec.order}
    return {f"{cell} order={order}": order for order in range(spec.orders)}


def _one_order(stored: _Stored, cell: str, order: int, seeds: tuple[int, ...]) -> Cell:
    """A variant in one order, with stages in training order."""
    stages = list(stage_order(stored.table.suite, order))
    tasks = [stored.tasks[stage] for stage in stages]
    R, curve = stored.matrix(cell, seeds)[:, :, stages], stored.curve(cell, seeds)[:, stages]
    values = metrics.measure(R, tasks)
    values["area"] = metrics.area(curve)
    values["AP per MB"] = metrics.memory_efficiency(values["AP"], stored.nbytes(cell))
    values["MB"] = np.full(len(seeds), stored.nbytes(cell) / 1e6)
    if stored.scratch is not None:
        scratch, reference = stored.matrix(stored.scratch, seeds)[:, 1], stored.curve(stored.scratch, seeds)
        values["FT paper"] = metrics.transfer_over_scratch(R, scratch[:, stages])
        values["FT area"] = metrics.transfer_of_area(curve, reference[:, stages])
    final = R[:, -1, metrics.current_stages(tasks, len(tasks))]
    return Cell(cell, (cell,), seeds, R, curve, final, {}, values)
