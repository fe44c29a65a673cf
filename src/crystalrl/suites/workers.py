"""Worker processes that step environments through shared memory, and are replaced if they fail.

A worker is a program (`worker.py`) that owns some rows of shared arrays: it reads actions and writes observations,
rewards and ends of episodes. It waits for words in shared memory (`process.py`). If it dies or does not answer in time,
it is replaced: the episodes of its rows count as truncated, and an `Incident` reports where it
happened. An environment that returns NaN, infinity or a wrong shape, that cannot start, or that fails again and again,
ends its lane: its rows no longer step, and the other lanes continue.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crystalrl.suites.process import Answer, WorkerProcess, worker_arrays
from crystalrl.suites.worker import Arrays, Failure, Layout, Request, Slots, nbytes, truncate, views

STEP_TIMEOUT = 60.0
"""Seconds to wait for one step of a worker's rows."""
START_TIMEOUT = 60.0
"""Additional seconds for a process to start and create its environments."""
MAX_FAILURES = 3
"""Failures of one row, without a successful step in between, that end its lane."""


FLAGS = ("terminated", "truncated", "success", "idle", "failed", "done")


@dataclass(frozen=True)
class Incident:
    """An environment failed: its lane, its number in the lane, its task, what happened, and in which step of the
    episode (0: at its start). If `fatal`, the lane has ended; otherwise the environment was replaced.
    """

    lane: int
    env: int
    task: str
    what: str
    step: int | None = None
    fatal: bool = False
    learner: str = ""
    """Cell and seed of the lane, if they are known."""
    during: str = ""
    """Training or scoring, if it is known."""

    def __str__(self) -> str:
        learner, during = f" ({self.learner})" if self.learner else "", f" while {self.during}" if self.during else ""
        step = "" if self.step is None else f", step {self.step}"
        where = f"lane {self.lane}{learner}, environment {self.env}, {self.task}{step}{during}"
        after = "this learner has failed" if self.fatal else "restarted, episode truncated"
        return f"{where}: {self.what}; {after}"


class Pool:
    """Rows of environments, lane by lane, in this process (`workers` 0) or distributed over worker processes.

    Invariant: between calls every row has a finite observation, even if its environment failed; rows of the lanes in
    `lost`, which several pools may share, do not step.
    """

    def __init__(self, lanes: int, envs: int, arrays: Layout, workers: int = 0, lost: set[int] | None = None) -> None:
        self.rows, self.envs, self.timeout = lanes * envs, envs, STEP_TIMEOUT
        self.lost: set[int] = set() if lost is None else lost
        """Lanes that have ended."""
        count = min(workers, self.rows)
        flags = [(name, (self.rows,), "bool") for name in FLAGS]
        own = [
            ("reward", (self.rows,), "float32"),
            ("episode", (self.rows,), "int64"),
            ("age", (self.rows,), "int64"),
            *worker_arrays(max(count, 1)),
        ]
        layout = [(name, (self.rows, *shape), dtype) for name, shape, dtype in arrays] + own + flags
        buffer, fd = _shared(nbytes(layout)) if count else (bytearray(nbytes(layout)), -1)
        self.arrays: Arrays = views(buffer, layout)
        self.incidents: list[Incident] = []
        self._failures: dict[int, int] = {}
        """Row → failures since its last successful step."""
        self._failed: set[int] = set()
        """Rows that failed in this step."""
        self._requests: dict[int, Request] = {}
        self._slots = Slots(self.arrays) if count == 0 else None
        self._mine = [range(w, self.rows, count) for w in range(count)] if count else [range(self.rows)]
        self._workers = [WorkerProcess(fd, layout, self.arrays, number) for number in range(count)]
        if count:
            weakref.finalize(self, os.close, fd)

    def begin(self, requests: Sequence[Request]) -> None:
        """Start rows: {row, task, seed}; to continue an episode, also {episode, actions}."""
        for request in requests:
            worker = request["row"] % len(self._mine)
            self._requests[request["row"]] = {"episode": 0, "actions": [], **request, "worker": worker}
        self._start([request["row"] for request in requests])

    def step(self) -> None:
        """Take the actions of all rows that are not idle."""
        self.start_step()
        self.finish_step()

    def start_step(self) -> None:
        """Let the workers take the actions of all rows that are not idle; `finish_step` must follow."""
        self.arrays["done"][:] = False
        self._rest()
        self._until = time.monotonic() + self.timeout
        for worker in self._workers:
            worker.step()

    def finish_step(self) -> None:
        """Wait for the workers, or step here if there are none."""
        if self._slots is not None:
            answers: list[Answer] = [self._slots.step(self._mine[0])]
        else:
            answers = [worker.answer(self._until) for worker in self._workers]
        for number, answer in enumerate(answers):
            if isinstance(answer, str):
                self._replace(number, answer)
            else:
                self._report_all(answer)
        for row in [row for row in self._failures if row not in self._failed]:
            del self._failures[row]  # a successful step resets the count
        self._failed.clear()

    def _start(self, rows: Sequence[int]) -> None:
        """Start some rows as requested; a worker that fails is replaced and receives the request again."""
        self._rest()
        going = {row for row in rows if not self.arrays["failed"][row]}
        wanted = [[self._requests[row] for row in mine if row in going] for mine in self._mine]
        if self._slots is not None:
            self._report_all(self._slots.begin(wanted[0]))
            return
        until = time.monotonic() + START_TIMEOUT + self.timeout
        for worker, requests in zip(self._workers, wanted, strict=True):
            worker.begin(requests)
        for number, answer in enumerate([worker.answer(until) for worker in self._workers]):
            if isinstance(answer, str):
                self._report_crash(number, answer)
                self._workers[number].start()
                self._start(list(self._mine[number]))
            else:
                self._report_all(answer)

    def _rest(self) -> None:
        """Let the rows of lanes that have ended stand still: no reward, no end of an episode."""
        for row in (lane * self.envs + env for lane in self.lost for env in range(self.envs)):
            if not self.arrays["failed"][row]:
                truncate(self.arrays, row)
            self.arrays["failed"][row] = True
            self.arrays["truncated"][row] = False

    def _replace(self, number: int, what: str) -> None:
        """Restart a worker that failed in a step; its rows begin new episodes."""
        self._report_crash(number, what)
        for row in self._mine[number]:
            request = self._requests[row]
            if self.arrays["idle"][row] or self.arrays["failed"][row]:
                continue
            if not self.arrays["done"][row]:
                truncate(self.arrays, row)
            elif not self.arrays["terminated"][row] and not self.arrays["truncated"][row]:
                self.arrays["truncated"][row] = True
                self.arrays["episode"][row] += 1
            self._requests[row] = {**request, "episode": int(self.arrays["episode"][row]), "actions": []}
        self._workers[number].start()
        self._start(list(self._mine[number]))

    def _report_crash(self, number: int, what: str) -> None:
        """Report the row at which a worker failed."""
        row = int(self.arrays["at"][number])
        if row // self.envs in self.lost:
            raise RuntimeError(f"worker {number}: wanted it to start, got one that {what}")
        self._report({"row": row, "step": int(self.arrays["age"][row]), "what": what, "fatal": False})

    def _report_all(self, failures: Sequence[Failure]) -> None:
        for failure in failures:
            self._report(failure)

    def _report(self, failure: Failure) -> None:
        row, what, fatal = failure["row"], failure["what"], failure["fatal"]
        lane, env = divmod(row, self.envs)
        self._failed.add(row)
        self._failures[row] = self._failures.get(row, 0) + 1
        if not fatal and self._failures[row] >= MAX_FAILURES:
            what, fatal = f"failed {MAX_FAILURES} times in a row: {what}", True
        if lane not in self.lost:
            task = self._requests[row]["task"]["name"]
            self.incidents.append(Incident(lane, env, task, what, failure["step"], fatal))
        if fatal:
            self._lose(lane)

    def _lose(self, lane: int) -> None:
        """End a lane; the episodes of its rows are truncated."""
        self.lost.add(lane)
        for row in range(lane * self.envs, (lane + 1) * self.envs):
            truncate(self.arrays, row)
            self.arrays["failed"][row] = True

    def close(self) -> None:
        """Stop the workers."""
        for worker in self._workers:
            worker.stop()


def _shared(size: int) -> tuple[Any, int]:
    """Memory shared between processes, and its file descriptor; the file has no name, so nothing is left behind."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    fd, path = tempfile.mkstemp(dir=folder)
    os.unlink(path)
    os.truncate(fd, size)
    return mmap.mmap(fd, size), fd
