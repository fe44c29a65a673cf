"""Running a plan: every group once, its results into the store. Here, or on a Ray cluster."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from crystalrl.study.checkpoints import MINUTES, Checkpoints
from crystalrl.study.plan import Group
from crystalrl.study.recorder import Record
from crystalrl.study.run import Event, Learner, Progress, run
from crystalrl.study.store import Store


def execute(
    groups: Sequence[Group], store: Store, device: torch.device | str = "cpu", minutes: float = MINUTES
) -> Iterator[tuple[int, Event]]:
    """Run the groups that are not stored yet, each from where it was interrupted; yields (number of the group, what
    happened). Checkpoints are written at the end of every task and every so many minutes.
    """
    kept = Checkpoints(store.folder, minutes)
    for number, group in pending(groups, store, kept):
        learner, record = kept.begin(group, device)
        for event in followed(learner, record, kept):
            yield number, event
        store.write(group.key, record.tables(), str(device))
        kept.discard(group)


def followed(learner: Learner, record: Record, kept: Checkpoints) -> Iterator[Event]:
    """The events of a run from where it is, recorded and kept."""
    for event in run(learner.group, learner.device, learner):
        record.take(event)
        kept.offer(event, learner, record)
        yield event


RETRIES = 5
"""How often a run is started again whose Ray worker was lost."""
PAUSE = 0.25
"""Seconds between two reports of progress from a Ray worker."""


def execute_ray(
    groups: Sequence[Group], store: Store, device: str = "cpu", minutes: float = MINUTES, address: str = ""
) -> Iterator[tuple[int, Event]]:
    """As `execute`, every run a task of a Ray cluster (at `address`, or one of this machine) that asks for one CPU and,
    on cuda, one GPU. A run whose worker is lost starts again from its checkpoint if the new worker sees the store's
    folder, else from its beginning. Results come back here, into the one store.
    """
    try:
        import ray
        from ray.util.queue import Queue
    except ModuleNotFoundError:
        raise ValueError("how: wanted the package for ray, got none: pip install 'crystalrl[ray]'") from None
    kept = Checkpoints(store.folder, minutes)
    todo = pending(groups, store, kept)
    if not todo:
        return
    mine = not ray.is_initialized()
    if mine:
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
                store.write(group.key, ray.get(ended), device)
                kept.discard(group)
        yield from queue.get_nowait_batch(queue.qsize())
    finally:
        if mine:
            ray.shutdown()


def _remote_run(number: int, group: Group, folder: str, device: str, minutes: float, queue: Any) -> Any:
    """One run on a Ray worker: its events into the queue, progress now and then; its tables."""
    prepare(device)
    kept, last = Checkpoints(Path(folder), minutes), 0.0
    kept.possible &= Path(folder).is_dir()
    learner, record = kept.begin(group, device)
    for event in followed(learner, record, kept):
        now = time.monotonic()
        if not isinstance(event, Progress) or now - last > PAUSE or event.done == event.total:
            queue.put((number, event))
            last = now if isinstance(event, Progress) else last
    return record.tables()


def pending(groups: Sequence[Group], store: Store, kept: Checkpoints | None = None) -> list[tuple[int, Group]]:
    """The groups that are not stored yet, by number; an error if another part holds any of their learners. Checkpoints
    of those that are, left by a process that was killed just then, are discarded.
    """
    todo = [(number, group) for number, group in enumerate(groups) if not store.has(group.key)]
    if kept is not None:
        left = {number for number, _ in todo}
        for group in (group for number, group in enumerate(groups) if number not in left):
            kept.discard(group)
    store.refuse_stored((lane.cell, lane.seed) for _, group in todo for lane in group.lanes)
    return todo


def best_device() -> str:
    """cuda where there is one, else cpu."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare(device: str) -> None:
    """Settings of this process that make small learners fast, and their scores the same from run to run. On CPU: one
    thread (the tensors are small), freed memory kept (fresh pages cost as much as the arithmetic here), denormal
    numbers as zero. On CUDA: networks multiply in TF32, which reads the first ten bits of a fraction and adds up in
    float32; the memories do not (see `memory.neighbours.exact.full_precision`).
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
