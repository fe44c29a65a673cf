"""Loggers for the numbers of a running study: TensorBoard, Weights & Biases. Each is imported only if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from crystalrl.memory.crystal.metrics import DETAILS, MAIN, Metric
from crystalrl.study.events import Consolidated, Curve, Event, Scored
from crystalrl.study.metrics import current_stages
from crystalrl.study.plan import Group, stage_tasks
from crystalrl.study.spec import unknown

SO_FAR, PRESENT = "score on the tasks so far", "score on the present task"
SCORES = {
    SO_FAR: Metric(
        "mean score on all tasks learnt so far, in their latest definition, after each task",
        "stays high; falls if tasks are forgotten",
    ),
    PRESENT: Metric(
        "score on the task that is being learnt", "rises during every task; if not, new tasks are not learnt"
    ),
    "crystal": MAIN["crystal"],
    "melted": MAIN["melted"],
}
"""The most important numbers of a row, in order; all others are in a second group."""


class Logger(Protocol):
    """Receives named numbers at a number of environment steps."""

    def log(self, values: Mapping[str, float], step: int) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    """Event files in the results folder: `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError:
            raise _missing("tensorboard") from None
        self.writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """A run in the project crystalrl, named after the results folder."""

    def __init__(self, folder: Path) -> None:
        try:
            import wandb
        except ModuleNotFoundError:
            raise _missing("wandb") from None
        self.run: Any = wandb.init(project="crystalrl", name=folder.name, dir=str(folder))

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.run.log(
            {**values, "environment steps": step}
        )  # not W&B's own step, because rows have different step counts

    def close(self) -> None:
        self.run.finish()


LOGGERS: dict[str, Callable[[Path], Logger]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def open_logger(name: str, folder: Path) -> Logger:
    """The logger with this name, for a results folder."""
    if name not in LOGGERS:
        raise ValueError(unknown("sink", name, set(LOGGERS)))
    return LOGGERS[name](folder)


def _missing(name: str) -> ValueError:
    return ValueError(f"sink: wanted the package for {name}, got none: pip install 'crystalrl[{name}]'")


def log_events(
    events: Iterable[tuple[int, Event]], groups: Sequence[Group], logger: Logger
) -> Iterator[tuple[int, Event]]:
    """Yield the events unchanged, and log their numbers."""
    try:
        for number, event in events:
            values, step = scalars(groups[number], event)
            if values:
                logger.log(values, step)
            yield number, event
    finally:
        logger.close()


def scalars(group: Group, event: Event) -> tuple[dict[str, float], int]:
    """The numbers of an event, as means over the lanes of each cell, and the environment steps at that time."""
    per_lane, step = _per_lane(group, event)
    cells = np.array([lane.cell for lane in group.lanes])
    found = {}
    for name, values in per_lane.items():
        for cell in dict.fromkeys(cells.tolist()):
            mine = values[(cells == cell) & np.isfinite(values)]
            if len(mine):
                first = cell if name in SCORES else f"{cell}{DETAILS}"
                found[f"{first}/{name}"] = float(mine.mean())
    return found, step


def _per_lane(group: Group, event: Event) -> tuple[dict[str, Any], int]:
    """Name → one number per lane, and the environment steps."""
    if isinstance(event, Curve):
        return {PRESENT: event.score.numpy()}, group.begins(event.stage) + event.step
    if isinstance(event, Consolidated):
        return {name: value.double().numpy() for name, value in event.values.items()}, event.done
    if isinstance(event, Scored) and event.after:
        learnt = np.array([_current(group, lane.stages[: event.after]) for lane in group.lanes])
        known = np.take_along_axis(event.score.numpy(), learnt, axis=1)
        return {SO_FAR: known.mean(axis=1)}, group.begins(event.after)
    return {}, 0


def _current(group: Group, learnt: Sequence[int]) -> list[int]:
    """Of the stages that were learnt, those that no later one redefines."""
    tasks = stage_tasks(group.spec.suite)
    return [learnt[k] for k in current_stages([tasks[stage] for stage in learnt], len(learnt))]
