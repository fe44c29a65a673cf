"""Running a plan: every group once, its results into the store."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from crystalrl.study.plan import Group, Lane
from crystalrl.study.run import Built, Consolidated, Curve, Event, Scored, run
from crystalrl.study.store import TABLES, Store


def execute(groups: Sequence[Group], store: Store, device: torch.device | str = "cpu") -> Iterator[tuple[int, Event]]:
    """Run the groups that are not stored yet; yields (number of the group, what happened)."""
    for number, group in enumerate(groups):
        if store.has(group.key):
            continue
        record = Record(group)
        for event in run(group, device):
            record.take(event)
            yield number, event
        store.write(group.key, record.tables, str(device))


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
    """The events of one run as columns. Invariant: all columns of a table have one length."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.tables: dict[str, dict[str, list[Any]]] = {
            name: {column: [] for column in columns} for name, columns in TABLES.items()
        }

    def take(self, event: Event) -> None:
        """Add what an event says, lane by lane."""
        lanes = self.group.lanes
        if isinstance(event, Scored):
            for lane, scores in zip(lanes, event.score.tolist(), strict=True):
                for task in lane.stages:
                    self._add("scores", lane, after=event.after, task=task, score=scores[task])
        elif isinstance(event, Curve):
            for lane, score in zip(lanes, event.score.tolist(), strict=True):
                self._add("curves", lane, task=lane.stages[event.stage], step=event.step, score=score)
        elif isinstance(event, Built):
            self._add_means(0, {"nbytes": [float(event.nbytes)] * len(lanes)})
        elif isinstance(event, Consolidated):
            self._add_means(event.done, event.scalars)

    def _add_means(self, step: int, numbers: Mapping[str, Sequence[float]]) -> None:
        """Means over the learners of each cell (that have a number), at a step."""
        first = {lane.cell: lane for lane in reversed(self.group.lanes)}
        cells = np.array([lane.cell for lane in self.group.lanes])
        for name, values in numbers.items():
            for cell, lane in first.items():
                mine = np.asarray(values)[cells == cell]
                known = mine[np.isfinite(mine)]
                self._add("memory", lane, step=step, name=name, value=known.mean() if len(known) else np.nan)

    def _add(self, table: str, lane: Lane, **values: Any) -> None:
        row = {"cell": lane.cell, "method": lane.method, "seed": lane.seed, **values}
        for name, column in self.tables[table].items():
            column.append(row[name])
