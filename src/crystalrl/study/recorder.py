"""From the events of a run to the columns that are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.study.contents import Contents
from crystalrl.study.details import contents_rows, followed_rows, histogram_rows
from crystalrl.study.events import Built, Consolidated, Curve, Event, Scored
from crystalrl.study.plan import Group
from crystalrl.study.schema import ALL, TABLES
from crystalrl.study.store import Failed
from crystalrl.suites.workers import Incident


class Recorder:
    """Collects the events of one run as columns of tables, one row per lane and value.

    Invariant: `tables` has no row of a lane in `failures`, and every score in it is finite.
    """

    def __init__(self, group: Group) -> None:
        self.group, self.lanes = group, group.lanes
        lanes = group.lanes
        self.failures: dict[int, Incident] = {}
        """Lane → the incident that ended it."""
        self.lane = {name: np.array([[getattr(lane, name)] for lane in lanes]) for name in ("cell", "method", "seed")}
        self.stages = np.array([lane.stages for lane in lanes])
        self.nbytes = np.nan
        self._begun = monotonic()
        self.rows: dict[str, list[dict[str, NDArray[Any]]]] = {table: [] for table in ALL}

    @property
    def seconds(self) -> float:
        """Wall-clock time of the run so far, without the time for which it was interrupted."""
        return monotonic() - self._begun

    def record(self, event: Event) -> None:
        """Add the rows of an event."""
        if isinstance(event, Scored):
            score = np.take_along_axis(event.score.numpy(), self.stages, axis=1)
            self._add("scores", after=event.after, task=self.stages, score=score)
        elif isinstance(event, Curve):
            self._add("curves", task=self._task(event.stage), step=event.step, score=event.score.numpy()[:, None])
        elif isinstance(event, Built):
            self.nbytes = event.nbytes
            self._add("memory", step=0, task=self._task(0), nbytes=self.nbytes)
        elif isinstance(event, Consolidated):
            values = {name: value.numpy()[:, None] for name, value in event.values.items()}
            self._add("memory", step=event.done, task=self._task(event.stage), nbytes=self.nbytes, **values)
            due = self.rows["memory"][-1]["evaluated"] > 0  # lanes may consolidate at different times
            self.rows["memory"][-1] = {name: column[due] for name, column in self.rows["memory"][-1].items()}
            self._details("histograms", histogram_rows(self.group, event))
            self._details("followed", followed_rows(self.group, event))
        elif isinstance(event, Contents):
            self._details("contents", contents_rows(self.group, event))
        elif isinstance(event, Incident) and event.fatal:
            self.failures.setdefault(event.lane, event)

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Everything so far of the lanes that have not failed, by table and column; nothing if all have failed.

        NaN: an event has no value for a column.
        """
        if len(self.failures) == len(self.lanes):
            return {}
        known = {table: rows for table, rows in self.rows.items() if rows or table in TABLES}
        joined = {table: _joined(rows, [*ALL[table]]) for table, rows in known.items()}
        return {table: self._without_failed(columns) for table, columns in joined.items()}

    def _without_failed(self, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        kept = np.ones(len(columns["cell"]), dtype=bool)
        for lane in (self.lanes[number] for number in self.failures):
            mine = (columns["cell"] == lane.cell) & (columns["seed"] == lane.seed)
            kept &= ~(mine & np.isin(columns["task"], lane.stages))
        return {name: column[kept] for name, column in columns.items()} if self.failures else columns

    def failed(self) -> list[Failed]:
        """The lanes that failed, for the store."""
        return [
            {"cell": self.lanes[lane].cell, "seed": self.lanes[lane].seed, "what": str(incident)}
            for lane, incident in sorted(self.failures.items())
        ]

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything so far, for a checkpoint: a JSON header, and tensors; text columns are indices into its names."""
        names: dict[str, list[str]] = {}
        tensors: dict[str, Tensor] = {}
        for table, rows in self.rows.items():
            for name, column in _joined(rows, [*ALL[table]]).items() if rows else ():
                if column.dtype.kind in "UO":
                    known, column = np.unique(column.astype(str), return_inverse=True)
                    names[f"{table}.{name}"] = known.tolist()
                tensors[f"{table}.{name}"] = torch.from_numpy(np.ascontiguousarray(column))
        header = {"names": names, "columns": list(tensors), "nbytes": self.nbytes, "seconds": self.seconds}
        return {**header, "failures": [asdict(incident) for incident in self.failures.values()]}, tensors

    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        self.nbytes = header["nbytes"]
        self._begun = monotonic() - header.get("seconds", 0.0)
        self.failures = {given["lane"]: Incident(**given) for given in header.get("failures", ())}
        self.rows = {table: [] for table in ALL}
        for table, columns in stored_columns(header, tensors).items():
            self.rows[table].append(columns)

    def _details(self, table: str, rows: Mapping[str, NDArray[Any]]) -> None:
        if rows:
            self.rows[table].append(dict(rows))

    def _task(self, stage: int) -> NDArray[Any]:
        return self.stages[:, stage : stage + 1]

    def _add(self, table: str, **columns: Any) -> None:
        """Add one row for each element of the columns, which are numbers or [L, n]."""
        named = {**self.lane, **columns}
        wide = np.broadcast_arrays(*named.values())
        self.rows[table].append({name: column.ravel() for name, column in zip(named, wide, strict=True)})


def _joined(rows: Sequence[Mapping[str, NDArray[Any]]], first: Sequence[str]) -> dict[str, NDArray[Any]]:
    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    return {name: np.concatenate([row.get(name, np.full(len(row["cell"]), np.nan)) for row in rows]) for name in names}


def stored_columns(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, dict[str, NDArray[Any]]]:
    """The columns of every table in what `Recorder.state` returned."""
    tables: dict[str, dict[str, NDArray[Any]]] = {}
    for full in header["columns"]:
        (table, _, name), column = full.partition("."), tensors[full].numpy()
        if full in header["names"]:
            column = np.array(header["names"][full])[column]
        tables.setdefault(table, {})[name] = column
    return tables
