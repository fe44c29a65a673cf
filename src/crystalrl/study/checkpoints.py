"""Checkpoints of unfinished runs: one file per run, safetensors and JSON.

A file holds the trainer (agent, memory, method, environments, random streams, counters) and the results so far. It is
written atomically, at the end of every task and at an interval in minutes; saving changes no results.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.header import CheckpointError
from crystalrl.study.events import Event, Progress, Scored
from crystalrl.study.plan import Group
from crystalrl.study.recorder import Recorder
from crystalrl.study.run import Trainer

MINUTES = 10.0
TRAINER, RECORDER = "learner", "record"
"""Names of the two parts of a file."""


class Checkpoints:
    """Unfinished runs of one results folder. Invariant: a file is the whole state of a run at one moment."""

    def __init__(self, folder: Path, minutes: float = MINUTES) -> None:
        if not minutes >= 0:
            raise ValueError(f"checkpoint_minutes: wanted a number ≥ 0, got {minutes}")
        self.folder, self.minutes = folder / "checkpoints", minutes
        self.available = _has_safetensors()
        self._last = time.monotonic()

    def restore(self, trainer: Trainer, recorder: Recorder) -> None:
        """Load the checkpoint of a run into its new trainer and recorder, if there is one."""
        path, key = self._path(trainer.group), trainer.group.key
        if self.available and path.is_file():
            header, tensors = checkpoint.read(path)
            if header.get("key") != key:
                raise CheckpointError(f"{path}: wanted a checkpoint of run {key}, got {header.get('key')}")
            try:
                trainer.load(_part(tensors, TRAINER))
            except (KeyError, ValueError) as error:
                raise CheckpointError(f"{path}: {error}; delete it to restart this run") from error
            recorder.load(header[RECORDER], _part(tensors, RECORDER))
        self._last = time.monotonic()

    def save_if_due(self, event: Event, trainer: Trainer, recorder: Recorder) -> None:
        """Save a checkpoint if a task has ended or the interval has passed."""
        late = isinstance(event, Progress) and time.monotonic() - self._last >= 60 * self.minutes
        if self.available and (late or isinstance(event, Scored)):
            self._save(trainer, recorder)

    def _save(self, trainer: Trainer, recorder: Recorder) -> None:
        state = trainer.state()
        if state is None:
            return
        header, columns = recorder.state()
        tensors = {f"{TRAINER}/{name}": tensor for name, tensor in state.items()}
        tensors |= {f"{RECORDER}/{name}": tensor for name, tensor in columns.items()}
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(trainer.group)
        checkpoint.write(path, {"kind": "run", "key": trainer.group.key, RECORDER: header}, tensors)
        self._last = time.monotonic()

    def discard(self, group: Group) -> None:
        """Delete the checkpoint of a run, and temporary files that a killed process may have left."""
        for path in self.folder.glob(f".{self._path(group).name}.*.tmp"):
            path.unlink(missing_ok=True)
        self._path(group).unlink(missing_ok=True)

    def _path(self, group: Group) -> Path:
        return self.folder / f"{group.key}.safetensors"


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part of a file, under their own names."""
    return {name.removeprefix(f"{part}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{part}/")}


def _has_safetensors() -> bool:
    """Whether checkpoints can be written; without safetensors an interrupted run starts from the beginning."""
    try:
        import safetensors  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True
