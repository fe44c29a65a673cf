"""One worker process: how it is started, given requests, waited for and stopped.

Requests and answers are words in shared memory: the parent raises `asked`, and the worker sets `answered` to the same.
Anything else, which is rare, is sent through pipes as JSON.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from crystalrl.suites import worker as program
from crystalrl.suites.signals import Word
from crystalrl.suites.worker import Arrays, Failure, Layout, Request

Answer = list[Failure] | str
"""Failures of the step, or the reason why there is no answer."""
LOOK = 0.2
"""Seconds after which a waiting parent checks that the worker is still alive."""


def worker_arrays(workers: int) -> Layout:
    """Shared arrays with one element per worker."""
    return [
        ("at", (workers,), "int64"),  # the row that it steps
        ("asked", (workers,), "int32"),
        ("answered", (workers,), "int32"),
        ("begins", (workers,), "bool"),  # whether it is asked to start rows
        ("failures", (workers,), "int64"),  # failures in its last answer
    ]


class WorkerProcess:
    """Worker `number`. Invariant: after `start` it waits for a request."""

    def __init__(self, fd: int, layout: Layout, arrays: Arrays, number: int) -> None:
        self.fd, self.layout, self.arrays, self.number = fd, layout, arrays, number
        self.asked, self.answered = (Word(arrays[name], number) for name in ("asked", "answered"))
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start the process, after stopping the previous one."""
        self.stop()
        self.answered.set(self.asked.get())
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 — closed by `stop` or when the worker is collected
        paths = os.pathsep.join([path or "." for path in sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(program.__file__)), *map(str, (self.fd, self.number, os.getpid()))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            pass_fds=(self.fd,),
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        self._end = weakref.finalize(self, _kill, self.process, self.errors)
        self._say(self.layout)

    def step(self) -> None:
        """Ask for one step of all its rows."""
        self.arrays["begins"][self.number] = False
        self._ask()

    def begin(self, requests: Sequence[Request]) -> None:
        """Ask it to start rows."""
        self.arrays["begins"][self.number] = True
        self._ask()
        self._say(requests)

    def _ask(self) -> None:
        self.asked.set((self.asked.get() + 1) % 2**31)

    def _say(self, said: object) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: `answer` says so
            self.process.stdin.write(json.dumps(said) + "\n")
            self.process.stdin.flush()

    def answer(self, until: float) -> Answer:
        """The answer to the last request; if there is none by then, the reason."""
        assert self.process is not None
        wanted = self.asked.get()
        while self.answered.get() != wanted:
            left = until - time.monotonic()
            if left <= 0:
                return "hung: no answer in time"
            if not self.answered.wait(self.answered.get(), min(left, LOOK)) and self.process.poll() is not None:
                return self._exit_reason()
        return self._failures(until) if self.arrays["failures"][self.number] else []

    def _failures(self, until: float) -> Answer:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0.001))
        if not ready:
            return "hung: no answer in time"
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            return self._exit_reason()
        failures: list[Failure] = json.loads(line)
        return failures

    def _exit_reason(self) -> str:
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
