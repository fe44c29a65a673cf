"""From stored scores to the numbers of a table: one sample of seeds per cell and metric."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.study import metrics
from crystalrl.study.metrics import Matrix
from crystalrl.study.plan import stage_tasks
from crystalrl.study.spec import RunSpec
from crystalrl.study.stats import hedges, holm, welch
from crystalrl.study.store import read
from crystalrl.study.tables import Table, table_from

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Cell:
    """Learners of one cell: seeds [n], R [n, S + 1, S], curve [n, S, points], metrics {name: [n]}."""

    name: str
    seeds: tuple[int, ...]
    R: Matrix
    curve: Matrix
    metrics: Mapping[str, Matrix]


@dataclass(frozen=True)
class Row:
    """A line of the table: the chosen cell, all cells it was chosen from, and what they reached on the tuning seeds."""

    name: str
    chosen: Cell
    candidates: tuple[Cell, ...]
    tuned: Mapping[str, float]
    spec: RunSpec


@dataclass(frozen=True)
class Comparison:
    """The reference against another row: difference of means, Welch's p, the same after Holm, Hedges' g."""

    row: str
    difference: float
    p: float
    adjusted: float
    effect: float


@dataclass(frozen=True)
class Results:
    """A folder of results, read."""

    table: Table
    tasks: tuple[int, ...]
    rows: tuple[Row, ...]
    memory: Columns

    @property
    def reference(self) -> Row:
        """The row that the others are tested against."""
        return next((row for row in self.rows if row.name == self.table.reference), self.rows[0])


def load_results(folder: str | Path) -> Results:
    """Everything a report needs of a results folder."""
    path = Path(folder) / "spec.toml"
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: wanted a folder of results, found no spec.toml")
    table = table_from(tomllib.loads(path.read_text()))
    stored = _Stored(folder, table)
    names = [name for name, spec in table.rows.items() if not spec.scratch and stored.cells(name)]
    rows = tuple(row for name in names for row in _rows(stored, name))
    if not rows:
        raise FileNotFoundError(f"{folder}: wanted results of at least one row, found none yet")
    return Results(table, stored.tasks, rows, stored.memory)


def compare(results: Results, metric: str) -> list[Comparison]:
    """The reference against every other row in one metric."""
    own = results.reference.chosen.metrics[metric]
    others = [row for row in results.rows if row is not results.reference]
    samples = [row.chosen.metrics[metric] for row in others]
    p = [welch(own, sample) for sample in samples]
    return [
        Comparison(row.name, float(own.mean() - sample.mean()), raw, adjusted, hedges(own, sample))
        for row, sample, raw, adjusted in zip(others, samples, p, holm(p), strict=True)
    ]


class _Stored:
    """The tables of a folder, by cell."""

    def __init__(self, folder: str | Path, table: Table) -> None:
        self.table, self.tasks = table, stage_tasks(table.suite)
        self.scores, self.curves = (read(folder, name) for name in ("scores", "curves"))
        self.memory: Columns = read(folder, "memory") if (Path(folder) / "memory.parquet").is_dir() else {}
        scratch = [cell for name, spec in table.rows.items() if spec.scratch for cell in self.cells(name)]
        self.scratch = scratch[0] if scratch else None

    def cells(self, method: str) -> list[str]:
        """Cells of a row, in the order they ran."""
        return list(dict.fromkeys(self.scores["cell"][self.scores["method"] == method]))

    def matrix(self, cell: str, seeds: Sequence[int]) -> Matrix:
        """R float64[n, S + 1, S]; NaN where nothing was stored."""
        count = len(self.tasks)
        return _pivot(self.scores, cell, seeds, ("after", "task"), (count + 1, count))

    def curve(self, cell: str, seeds: Sequence[int]) -> Matrix:
        """float64[n, S, points]."""
        steps = sorted(set(self.curves["step"][self.curves["cell"] == cell].tolist()))
        ranked = {**self.curves, "point": np.searchsorted(steps, self.curves["step"])}
        return _pivot(ranked, cell, seeds, ("task", "point"), (len(self.tasks), len(steps)))

    def nbytes(self, cell: str) -> float:
        """Bytes of memory per learner; NaN where the results came without the memory's table, by far the largest."""
        if not self.memory:
            return np.nan
        return float(self.memory["nbytes"][self.memory["cell"] == cell][0])


def _pivot(columns: Columns, cell: str, seeds: Sequence[int], axes: tuple[str, str], shape: tuple[int, int]) -> Matrix:
    """float64[n, *shape] of a cell's scores by seed and two integer columns; NaN where nothing was stored."""
    out = np.full((len(seeds), *shape), np.nan)
    mine = np.flatnonzero((columns["cell"] == cell) & np.isin(columns["seed"], seeds))
    place = {seed: i for i, seed in enumerate(seeds)}
    rows = np.array([place[seed] for seed in columns["seed"][mine].tolist()], dtype=np.int64)
    out[rows, columns[axes[0]][mine], columns[axes[1]][mine]] = columns["score"][mine]
    return out


def _rows(stored: _Stored, name: str) -> list[Row]:
    """One row, its cell chosen on the tuning seeds; without tuning seeds, a row for every cell."""
    table, cells = stored.table, stored.cells(name)
    reported = {cell: _cell(stored, cell, table.rows[name].seeds) for cell in cells}
    if len(cells) == 1 or not table.tuning_seeds:
        return [Row(cell, data, (data,), {}, table.rows[name]) for cell, data in reported.items()]
    tuning = {cell: _cell(stored, cell, table.tuning_seeds) for cell in cells}
    tuned = {cell: float(data.metrics[table.objective].mean()) for cell, data in tuning.items()}
    best = max(cells, key=lambda cell: tuned[cell])
    return [Row(name, reported[best], tuple(reported.values()), tuned, table.rows[name])]


def _cell(stored: _Stored, cell: str, seeds: tuple[int, ...]) -> Cell:
    R, curve = stored.matrix(cell, seeds), stored.curve(cell, seeds)
    values = measure(R, stored.tasks)
    values["AP per MB"] = metrics.memory_efficiency(values["AP"], stored.nbytes(cell))
    if stored.scratch is not None:
        final, reference = stored.matrix(stored.scratch, seeds)[:, 1], stored.curve(stored.scratch, seeds)
        values["FT paper"] = metrics.transfer_over_scratch(R, final)
        values["FT area"] = metrics.transfer_of_area(curve, reference)
    return Cell(cell, seeds, R, curve, values)


def measure(R: Matrix, tasks: Sequence[int]) -> dict[str, Matrix]:
    """Every metric that needs R alone, {name: [n]}."""
    values = {
        "AP": metrics.average_performance(R, tasks),
        "BT": metrics.backward_transfer(R, tasks),
        "forgetting": metrics.forgetting(R, tasks),
        "learned": metrics.learned(R).mean(axis=1),
        "zero-shot": metrics.zero_shot(R),
        "FT random": metrics.transfer_over_random(R),
        "task-1 retention": metrics.first_task_retention(R, tasks),
    }
    if metrics.first_pass(tasks) < len(tasks):
        values |= {
            "before": metrics.performance_before(R, tasks),
            "adapted": metrics.adaptation(R, tasks),
        }
    return values
