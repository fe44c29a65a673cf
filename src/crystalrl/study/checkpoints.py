"""Runs that were interrupted go on where they were: one file for each unfinished run, safetensors and JSON.

A file holds the learner (agent, memory, method, world, random streams, counters) and the results so far. It is written
at the end of every task and every so many minutes, whole or not at all; when that happens changes no result.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.checkpoint import CheckpointError
from crystalrl.study.plan import Group
from crystalrl.study.recorder import Record
from crystalrl.study.run import Event, Learner, Progress, Scored

MINUTES = 10.0


class Checkpoints:
    """Unfinished runs of one results folder. Invariant: a file is the whole state of a run at one moment."""

    def __init__(self, folder: Path, minutes: float = MINUTES) -> None:
        if not minutes >= 0:
            raise ValueError(f"checkpoint_minutes: wanted a number ≥ 0, got {minutes}")
        self.folder, self.minutes = folder / "checkpoints", minutes
        self.possible = _has_safetensors()
        self._last = time.monotonic()

    def begin(self, group: Group, device: torch.device | str) -> tuple[Learner, Record]:
        """Learner and results of a run: where it was interrupted, or at its beginning."""
        learner, record = Learner(group, torch.device(device)), Record(group)
        path = self._path(group)
        if self.possible and path.is_file():
            header, tensors = checkpoint.read(path)
            if header.get("key") != group.key:
                raise CheckpointError(f"{path}: wanted a checkpoint of run {group.key}, got {header.get('key')}")
            own = {part: {} for part in ("learner", "record")}  # type: ignore[var-annotated]
            for full, tensor in tensors.items():
                part, _, name = full.partition("/")
                own[part][name] = tensor
            try:
                learner.load(own["learner"])
            except (KeyError, ValueError) as error:
                raise CheckpointError(f"{path}: {error}; delete it to start this run anew") from error
            record.load(header["record"], own["record"])
        self._last = time.monotonic()
        return learner, record

    def offer(self, event: Event, learner: Learner, record: Record) -> None:
        """Save, if it is time: a task has ended, or minutes have passed."""
        late = isinstance(event, Progress) and time.monotonic() - self._last >= 60 * self.minutes
        if self.possible and (late or isinstance(event, Scored)):
            self._save(learner, record)

    def _save(self, learner: Learner, record: Record) -> None:
        state = learner.state()
        if state is None:
            return
        header, columns = record.state()
        tensors = {f"learner/{name}": tensor for name, tensor in state.items()}
        tensors |= {f"record/{name}": tensor for name, tensor in columns.items()}
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(learner.group)
        checkpoint.write(path, {"kind": "run", "key": learner.group.key, "record": header}, tensors)
        self._last = time.monotonic()

    def discard(self, group: Group) -> None:
        """Forget a run that is stored, and what a killed process may have left of writing it."""
        for path in self.folder.glob(f".{self._path(group).name}.*.tmp"):
            path.unlink(missing_ok=True)
        self._path(group).unlink(missing_ok=True)

    def _path(self, group: Group) -> Path:
        return self.folder / f"{group.key}.safetensors"


def _has_safetensors() -> bool:
    """Whether runs can be kept here; where only PyTorch and NumPy are installed, an interrupted one starts anew."""
    try:
        import safetensors  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True
