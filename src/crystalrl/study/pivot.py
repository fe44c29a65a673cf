"""From the rows of a stored table to arrays by cell and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.study.metrics import Matrix

Columns = Mapping[str, NDArray[Any]]


def by_cell(columns: Columns) -> dict[str, NDArray[np.int64]]:
    """Cell → the numbers of its rows in a table; cells in order of first appearance."""
    known: dict[str, int] = {}
    code = np.array(
        [known.setdefault(cell, len(known)) for cell in columns.get("cell", np.empty(0)).tolist()], np.int64
    )
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=len(known))) if known else np.empty(0, np.int64)
    return dict(zip(known, np.split(order, ends[:-1]), strict=True)) if known else {}


def pivot(mine: Columns, seeds: Sequence[int], axes: tuple[str, str], shape: tuple[int, int]) -> Matrix:
    """float64[n, *shape]: a cell's scores by seed and two integer columns; NaN for missing scores."""
    out = np.full((len(seeds), *shape), np.nan)
    order = np.argsort(seeds)
    place = np.searchsorted(np.asarray(seeds)[order], mine["seed"]).clip(max=max(len(seeds) - 1, 0))
    wanted = np.isin(mine["seed"], seeds)
    rows = order[place[wanted]]
    out[rows, mine[axes[0]][wanted], mine[axes[1]][wanted]] = mine["score"][wanted]
    return out
