"""Worker processes that step environments through shared memory, and are replaced if they fail.

A worker is a program (`worker.py`) that owns some rows of shared arrays: it reads actions and writes observations,
rewards and ends of episodes. It receives a message as one line on a pipe and answers with one line. If it dies or does
not answer in time, it is replaced: the episodes of its rows count as truncated, and an `Incident` reports where it
happened. An environment that returns NaN, infinity or a wrong shape, that cannot start, or that fails again and again,
ends its lane: all rows of the lane stand still from then on, and the other lanes go on.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from crystalrl.suites import worker as program
from crystalrl.suites.worker import Arrays, Failure, Layout, Request, Slots, nbytes, truncate, views

STEP_TIMEOUT = 60.0
"""Seconds to wait for one step of a worker's rows."""
START_TIMEOUT = 60.0
"""Additional seconds for a process to start and create its environments."""
MAX_FAILURES = 3
"""Failures of one row, without a successful step in between, that end its lane."""


FLAGS = ("terminated", "truncated", "success", "idle", "failed", "done")
Message = Mapping[str, Any]
"""A message to a worker: {"begin": requests} or {"step": rows}."""
Answer = list[Failure] | str
"""Failures of the step, or the reason why there is no answer."""


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
            ("at", (max(count, 1),), "int64"),
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
        self._workers = [_Worker(fd, layout) for _ in range(count)]
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
        self.arrays["done"][:] = False
        self._rest()
        if self._slots is not None:
            answers: list[Answer] = [self._slots.step(self._mine[0])]
        else:
            answers = self._ask([{"step": list(rows)} for rows in self._mine], self.timeout)
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
        messages = [{"begin": requests} for requests in wanted]
        for number, answer in enumerate(self._ask(messages, START_TIMEOUT + self.timeout)):
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

    def _ask(self, messages: Sequence[Message], timeout: float) -> list[Answer]:
        """Send every worker its message; return the answers."""
        sent = [worker.send(message) for worker, message in zip(self._workers, messages, strict=True)]
        until = time.monotonic() + timeout
        return [
            worker.answer(until) if ok else worker.exit_reason() for worker, ok in zip(self._workers, sent, strict=True)
        ]

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


class _Worker:
    """One worker process. Invariant: after `start` it waits for a message."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self.fd, self.layout = fd, layout
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start the process, after stopping the previous one."""
        self.stop()
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 — closed by `stop` or when the worker is collected
        paths = os.pathsep.join([path or "." for path in sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(program.__file__)), str(self.fd), json.dumps(self.layout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            pass_fds=(self.fd,),
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        self._end = weakref.finalize(self, _kill, self.process, self.errors)

    def send(self, message: Message) -> bool:
        """Send a message; False if the process is dead."""
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def answer(self, until: float) -> Answer:
        """The answer; if there is none by then, the reason."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0.001))
        if not ready:
            return "hung: no answer in time"
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            return self.exit_reason()
        failures: list[Failure] = json.loads(line)
        return failures

    def exit_reason(self) -> str:
        """Exit code and last line of stderr."""
        assert self.process is not None
        code = self.process.wait()
        self.errors.seek(0)
        stderr = self.errors.read()[-300:].decode(errors="replace").strip().splitlines()
        return f"crashed with exit code {code}" + (f" ({stderr[-1]})" if stderr else "")

    def stop(self) -> None:
        """Kill the process."""
        if self.process is not None:
            self._end()
            self.process = None


def _kill(process: subprocess.Popen[str], errors: IO[bytes]) -> None:
    process.kill()
    process.wait()
    errors.close()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # a message that was not delivered
                pipe.close()
