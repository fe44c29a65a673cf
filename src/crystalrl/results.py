"""Stored results as pandas DataFrames."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from crystalrl.packages import require
from crystalrl.study.definition import table_from
from crystalrl.study.provenance import read_runs
from crystalrl.study.schema import DETAILS, TABLES
from crystalrl.study.spec import read_toml
from crystalrl.study.store import read, read_details, result_folders
from crystalrl.suites.benchmarks import sequence_of

if TYPE_CHECKING:
    from pandas import DataFrame


def load(folder: str | os.PathLike[str]) -> dict[str, DataFrame]:
    """The tables of a results folder by name: scores, curves, memory; where they were stored, also histograms, followed
    and contents (what memories hold), and runs (time, machine and commit of every learner).

    If the folder holds several results folders, their rows are joined, and the column `table` names the folder. A table
    that was not stored is left out; a part that cannot be read is an error. Columns: see `crystalrl.study.schema`.
    """
    require("crystalrl.results", "pandas", extra="study")
    from pandas import concat

    top = Path(folder)
    found: dict[str, list[DataFrame]] = {}
    for inner in result_folders(top):
        for name, rows in _tables(inner).items():
            if inner != top:
                rows.insert(0, "table", inner.name)
            found.setdefault(name, []).append(rows)
    return {name: concat(rows, ignore_index=True) for name, rows in found.items()}


def returns(folder: str | os.PathLike[str]) -> DataFrame:
    """The table `scores` of one results folder with the column `return`: the mean return of the test episodes, in the
    units of the environment. It is NaN for tasks whose score is a success, and for suites without a list of tasks.
    """
    tables, suite = load(folder), table_from(read_toml(Path(folder) / "spec.toml")).suite
    own, scores = sequence_of(suite), tables["scores"]
    if own is None:
        return scores.assign(**{"return": float("nan")})
    spans = {k: (t.low, t.high - t.low) for k, t in enumerate(own.tasks) if not t.success}
    low, span = (scores["task"].map({k: span[part] for k, span in spans.items()}) for part in range(2))
    return scores.assign(**{"return": low + scores["score"] * span})


def _tables(folder: Path) -> dict[str, DataFrame]:
    from pandas import DataFrame

    stored = [name for name in reversed(TABLES) if (folder / f"{name}.parquet").is_dir()]
    tables = {name: DataFrame(read(folder, name)) for name in stored}
    problems: list[str] = []
    details = {name: read_details(folder, name, problems) for name in DETAILS}
    if problems:
        raise ValueError(problems[0])
    tables |= {name: DataFrame(columns) for name, columns in details.items() if columns}
    runs = read_runs(folder)
    return tables | ({"runs": DataFrame(runs)} if runs else {})
