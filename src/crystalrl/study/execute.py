"""Running a plan: every group once, its results into the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
            for lane in lanes:
                self._add("memory", lane, step=0, name="nbytes", value=float(event.nbytes))
        elif isinstance(event, Consolidated):
            for name, value in event.scalars.items():
                for lane, number in zip(lanes, value, strict=True):
                    self._add("memory", lane, step=event.done, name=name, value=number)

    def _add(self, table: str, lane: Lane, **values: Any) -> None:
        row = {"cell": lane.cell, "method": lane.method, "seed": lane.seed, **values}
        for name, column in self.tables[table].items():
            column.append(row[name])
