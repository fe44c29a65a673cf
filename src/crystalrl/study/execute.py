"""Running a plan: every group once, its results into the store."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crystalrl.study.plan import Group
from crystalrl.study.run import Built, Consolidated, Curve, Event, Scored, run
from crystalrl.study.store import TABLES, Store


def execute(groups: Sequence[Group], store: Store, device: torch.device | str = "cpu") -> Iterator[tuple[int, Event]]:
    """Run the groups that are not stored yet; yields (number of the group, what happened)."""
    for number, group in pending(groups, store):
        record = Record(group)
        for event in run(group, device):
            record.take(event)
            yield number, event
        store.write(group.key, record.tables(), str(device))


def pending(groups: Sequence[Group], store: Store) -> list[tuple[int, Group]]:
    """The groups that are not stored yet, by number; an error if another part holds any of their learners."""
    todo = [(number, group) for number, group in enumerate(groups) if not store.has(group.key)]
    store.refuse_stored((lane.cell, lane.seed) for _, group in todo for lane in group.lanes)
    return todo


def best_device() -> str:
    """cuda where there is one, else cpu."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare(device: str) -> None:
    """Settings of this process that make small learners fast on CPU, and their scores the same from run to run: one
    thread (the tensors are small), freed memory kept (fresh pages cost as much as the arithmetic here), denormal
    numbers as zero.
    """
    if device != "cpu":
        return
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        library.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass  # another C library: only slower


class Record:
    """The events of one run as columns, lane by lane."""

    def __init__(self, group: Group) -> None:
        lanes = group.lanes
        self.lane = {name: np.array([[getattr(lane, name)] for lane in lanes]) for name in ("cell", "method", "seed")}
        self.stages = np.array([lane.stages for lane in lanes])
        self.nbytes = np.nan
        self.rows: dict[str, list[dict[str, NDArray[Any]]]] = {table: [] for table in TABLES}

    def take(self, event: Event) -> None:
        """Add what an event says."""
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
            due = self.rows["memory"][-1]["evaluated"] > 0  # lanes may consolidate at their own times
            self.rows["memory"][-1] = {name: column[due] for name, column in self.rows["memory"][-1].items()}

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Everything so far, by table and column; NaN where an event said nothing of a column."""
        return {table: _joined(rows, [*TABLES[table]]) for table, rows in self.rows.items()}

    def _task(self, stage: int) -> NDArray[Any]:
        return self.stages[:, stage : stage + 1]

    def _add(self, table: str, **columns: Any) -> None:
        """One row for each element of the columns, which are a number or [L, n]."""
        named = {**self.lane, **columns}
        wide = np.broadcast_arrays(*named.values())
        self.rows[table].append({name: column.ravel() for name, column in zip(named, wide, strict=True)})


def _joined(rows: Sequence[Mapping[str, NDArray[Any]]], first: Sequence[str]) -> dict[str, NDArray[Any]]:
    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    return {name: np.concatenate([row.get(name, np.full(len(row["cell"]), np.nan)) for row in rows]) for name in names}
