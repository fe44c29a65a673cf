"""Stored results as pandas DataFrames."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from crystalrl.packages import require
from crystalrl.study.provenance import read_runs
from crystalrl.study.schema import DETAILS, TABLES
from crystalrl.study.store import read, read_details, result_folders

if TYPE_CHECKING:
    from pandas import DataFrame


def load(folder: str | os.PathLike[str]) -> dict[str, DataFrame]:
    """The tables of a results folder by name: scores, curves, memory; where they were stored, also histograms, followed
    and contents (the inside of memories), and runs (time, machine and commit of every learner).

    If the folder holds several results folders, their rows are joined, and the column `table` names the folder. A table
    that was not stored is left out. Columns: see `crystalrl.study.schema`.
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


def _tables(folder: Path) -> dict[str, DataFrame]:
    from pandas import DataFrame

    stored = [name for name in reversed(TABLES) if (folder / f"{name}.parquet").is_dir()]
    tables = {name: DataFrame(read(folder, name)) for name in stored}
    details = {name: read_details(folder, name, []) for name in DETAILS}
    tables |= {name: DataFrame(columns) for name, columns in details.items() if columns}
    runs = read_runs(folder)
    return tables | ({"runs": DataFrame(runs)} if runs else {})
