"""Execution of a plan: train every group that is not stored yet, here or on a Ray cluster, and store its results."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from crystalrl.study.checkpoints import MINUTES, Checkpoints
from crystalrl.study.events import Event, Progress, Waiting
from crystalrl.study.loggers import log_events, open_logger
from crystalrl.study.plan import Group
from crystalrl.study.provenance import write_run
from crystalrl.study.recorder import Recorder
from crystalrl.study.run import Trainer, run
from crystalrl.study.store import Columns, Failed, Store

Tables = Mapping[str, Columns]
Outcome = tuple[Sequence[Failed], Tables, float]
"""The learners of a run that failed, the tables of the others, and its wall-clock seconds."""


@dataclass(frozen=True)
class Execution:
    """Where and how runs are executed: options of every command that trains."""

    device: str = ""
    """cpu or cuda; empty: cuda if available."""
    how: Literal["local", "ray"] = "local"
    """In this process, or as tasks of a Ray cluster."""
    address: str = ""
    """Address of the Ray cluster, such as auto; empty: a cluster on this machine."""
    checkpoint_minutes: float = MINUTES
    """Minutes between two checkpoints; there is always one at the end of a task."""
    together: int = 1
    """Runs that take turns in this process: one continues while the environments of the others step. Not with ray."""
    sink: str = ""
    """Also send the numbers to tensorboard or wandb."""

    def events(self, groups: Sequence[Group], store: Store) -> Iterator[tuple[int, Event]]:
        """Run the groups that are not stored yet; yields (number of the group, event)."""
        device = self.device or best_device()
        if self.how == "local":
            check_device(device)
        prepare(device)
        if self.how == "ray":
            events = execute_ray(groups, store, device, self.checkpoint_minutes, self.address)
        else:
            events = execute(groups, store, device, self.checkpoint_minutes, self.together)
        return log_events(events, groups, open_logger(self.sink, store.folder)) if self.sink else events


def execute(
    groups: Sequence[Group],
    store: Store,
    device: torch.device | str = "cpu",
    minutes: float = MINUTES,
    together: int = 1,
) -> Iterator[tuple[int, Event]]:
    """Run the groups that are not stored yet, each from its checkpoint if it has one; yields (number of the group,
    event). Checkpoints are written at the end of every task and at this interval in minutes. Up to `together` runs take
    turns: one continues while the environments of the others step. Results do not depend on it.
    """
    if together < 1:
        raise ValueError(f"together: wanted a whole number ≥ 1, got {together}")
    waiting = deque(pending(groups, store, Checkpoints(store.folder, minutes)))
    running: deque[tuple[int, Iterator[Event]]] = deque()
    while waiting or running:
        while waiting and len(running) < together:
            number, group = waiting.popleft()
            running.append((number, _run(group, store, torch.device(device), minutes, together > 1)))
        number, events = running.popleft()
        for event in events:
            if isinstance(event, Waiting):
                running.append((number, events))
                break
            yield number, event


def _run(group: Group, store: Store, device: torch.device, minutes: float, pauses: bool) -> Iterator[Event]:
    """The events of one run, which is stored at its end; if it `pauses`, also whenever it waits for environments."""
    checkpoints, trainer, recorder = Checkpoints(store.folder, minutes), Trainer(group, device), Recorder(group)
    trainer.pauses = pauses
    checkpoints.restore(trainer, recorder)
    yield from recorded(trainer, recorder, checkpoints)
    finish(group, (recorder.failed(), recorder.tables(), recorder.seconds), store, str(device))
    checkpoints.discard(group)


def finish(group: Group, outcome: Outcome, store: Store, device: str) -> None:
    """Store a run. If all its learners failed, only that is recorded, and the next start tries again."""
    failed, tables, seconds = outcome
    store.write_failures(group.key, failed)
    if len(failed) < len(group.lanes):
        write_run(store.folder, group, seconds, device)
        store.write(group.key, tables, device)


def recorded(trainer: Trainer, recorder: Recorder, checkpoints: Checkpoints) -> Iterator[Event]:
    """The events of a run from its current position; each is recorded, and checkpoints are saved when due."""
    for event in run(trainer.group, trainer.device, trainer):
        recorder.record(event)
        checkpoints.save_if_due(event, trainer, recorder)
        yield event


RETRIES = 5
"""Maximum number of restarts of a run whose Ray worker was lost."""
PAUSE = 0.25
"""Seconds between two progress reports of a Ray worker."""


def execute_ray(
    groups: Sequence[Group], store: Store, device: str = "cpu", minutes: float = MINUTES, address: str = ""
) -> Iterator[tuple[int, Event]]:
    """Like `execute`, but every run is a task of a Ray cluster (at `address`, or on this machine) with one CPU and, on
    cuda, one GPU. If a worker is lost, its run restarts from its checkpoint if the new worker can access the store's
    folder, otherwise from the beginning. This process writes all results.
    """
    try:
        import ray
        from ray.util.queue import Queue
    except ModuleNotFoundError:
        raise ValueError("how: wanted the package for ray, got none: pip install 'crystalrl[ray]'") from None
    checkpoints = Checkpoints(store.folder, minutes)
    todo = pending(groups, store, checkpoints)
    if not todo:
        return
    owner = not ray.is_initialized()
    if owner:
        ray.init(address=address or None, include_dashboard=False, log_to_driver=False)
    try:
        queue = Queue(actor_options={"num_cpus": 0})
        needs: dict[str, Any] = {"num_cpus": 1, "num_gpus": int(device.startswith("cuda")), "max_retries": RETRIES}
        task, folder = ray.remote(**needs)(_remote_run), str(store.folder.resolve())
        waiting = {task.remote(number, group, folder, device, minutes, queue): group for number, group in todo}
        while waiting:
            done, _ = ray.wait(list(waiting), timeout=PAUSE)
            yield from queue.get_nowait_batch(queue.qsize())
            for ended in done:
                group = waiting.pop(ended)
                finish(group, ray.get(ended), store, device)
                checkpoints.discard(group)
        yield from queue.get_nowait_batch(queue.qsize())
    finally:
        if owner:
            ray.shutdown()


def _remote_run(number: int, group: Group, folder: str, device: str, minutes: float, queue: Any) -> Any:
    """One run on a Ray worker: sends its events to the queue, progress at intervals; returns its
    `Outcome`.
    """
    prepare(device)
    checkpoints, last = Checkpoints(Path(folder), minutes), 0.0
    checkpoints.available &= Path(folder).is_dir()
    trainer, recorder = Trainer(group, torch.device(device)), Recorder(group)
    checkpoints.restore(trainer, recorder)
    for event in recorded(trainer, recorder, checkpoints):
        now = time.monotonic()
        if not isinstance(event, Progress) or now - last > PAUSE or event.done == event.total:
            queue.put((number, event))
            last = now if isinstance(event, Progress) else last
    return recorder.failed(), recorder.tables(), recorder.seconds


def pending(groups: Sequence[Group], store: Store, checkpoints: Checkpoints | None = None) -> list[tuple[int, Group]]:
    """The groups that are not stored yet, by number; an error if another part holds any of their learners.

    Checkpoints of stored groups, which a process killed at that moment may have left, are discarded.
    """
    todo = [(number, group) for number, group in enumerate(groups) if not store.has(group.key)]
    if checkpoints is not None:
        unfinished = {number for number, _ in todo}
        for group in (group for number, group in enumerate(groups) if number not in unfinished):
            checkpoints.discard(group)
    lanes = [lane for _, group in todo for lane in group.lanes]
    store.refuse_stored((lane.cell, lane.seed, stage) for lane in lanes for stage in lane.stages)
    return todo


def best_device() -> str:
    """cuda if available, else cpu."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Raise ValueError if this machine lacks the device."""
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"device: wanted cpu or cuda, got {device!r}")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device: wanted cpu, as PyTorch finds no GPU here, got {device!r}")


def prepare(device: str) -> None:
    """Process settings that make small networks fast and their scores reproducible. On CPU: one thread (the tensors are
    small), freed memory is kept (new pages cost as much as the arithmetic), denormal numbers are flushed to zero.
    On CUDA: networks multiply in TF32, which reads ten bits of each fraction and accumulates in float32; the memories
    compute distances in full float32.
    """
    if device != "cpu":
        torch.set_float32_matmul_precision("high")
        return
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        library.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass  # another C library: only slower
