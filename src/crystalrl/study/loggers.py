"""Where else numbers may go while a study runs: TensorBoard, Weights & Biases. Neither is imported unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from crystalrl.study.plan import Group
from crystalrl.study.run import Consolidated, Curve, Event, Scored
from crystalrl.study.spec import unknown


class Sink(Protocol):
    """Takes numbers by name, at a number of environment steps."""

    def put(self, values: Mapping[str, float], step: int) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    """Event files in the results folder: `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError:
            raise _missing("tensorboard") from None
        self.writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def put(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """A run of the project crystalrl, named after the results folder."""

    def __init__(self, folder: Path) -> None:
        try:
            import wandb
        except ModuleNotFoundError:
            raise _missing("wandb") from None
        self.run: Any = wandb.init(project="crystalrl", name=folder.name, dir=str(folder))

    def put(self, values: Mapping[str, float], step: int) -> None:
        self.run.log({**values, "environment steps": step})  # rows have steps of their own, so not W&B's single one

    def close(self) -> None:
        self.run.finish()


SINKS: dict[str, Callable[[Path], Sink]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def open_sink(name: str, folder: Path) -> Sink:
    """The sink of this name, for a results folder."""
    if name not in SINKS:
        raise ValueError(unknown("sink", name, set(SINKS)))
    return SINKS[name](folder)


def _missing(name: str) -> ValueError:
    return ValueError(f"sink: wanted the package for {name}, got none: pip install 'crystalrl[{name}]'")


def passed_on(events: Iterable[tuple[int, Event]], groups: Sequence[Group], sink: Sink) -> Iterator[tuple[int, Event]]:
    """The events, unchanged; what they say also goes into the sink."""
    try:
        for number, event in events:
            values, step = scalars(groups[number], event)
            if values:
                sink.put(values, step)
            yield number, event
    finally:
        sink.close()


def scalars(group: Group, event: Event) -> tuple[dict[str, float], int]:
    """What an event says, as means over the lanes of each cell, and the environment steps at which it says so."""
    per_lane, step = _per_lane(group, event)
    cells = np.array([lane.cell for lane in group.lanes])
    found = {}
    for name, values in per_lane.items():
        for cell in dict.fromkeys(cells.tolist()):
            mine = values[(cells == cell) & np.isfinite(values)]
            if len(mine):
                found[f"{cell}/{name}"] = float(mine.mean())
    return found, step


def _per_lane(group: Group, event: Event) -> tuple[dict[str, Any], int]:
    """Name → number of every lane."""
    if isinstance(event, Curve):
        return {"score on the present task": event.score.numpy()}, event.stage * group.spec.steps + event.step
    if isinstance(event, Consolidated):
        return {f"memory/{name}": value.double().numpy() for name, value in event.values.items()}, event.done
    if isinstance(event, Scored) and event.after:
        learnt = np.array([lane.stages[: event.after] for lane in group.lanes])
        known = np.take_along_axis(event.score.numpy(), learnt, axis=1)
        return {"score on the tasks so far": known.mean(axis=1)}, event.after * group.spec.steps
    return {}, 0
