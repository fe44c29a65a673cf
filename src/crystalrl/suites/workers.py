"""Processes that step environments through shared memory, and survive what environments do to them.

A worker is a program (`worker.py`) that owns some rows of shared arrays: it reads actions there and writes
observations, rewards and ends. It is told by a line on a pipe what to do, and answers with a line. If it dies or does
not answer in time, it is replaced: the episodes of its rows count as truncated, and an `Incident` says where it
happened.
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
from crystalrl.suites.worker import Arrays, Layout, Slots, cut_off, nbytes, views

PATIENCE = 60.0
"""Seconds to wait for one step of a worker's rows."""
START = 60.0
"""More seconds for a process to start and make its environments."""
STRIKES = 3
"""A row that fails so often without a good step in between ends the run."""


@dataclass(frozen=True)
class Incident:
    """An environment failed and was replaced: its lane, its number there, its task, and what happened."""

    lane: int
    env: int
    task: str
    what: str

    def __str__(self) -> str:
        return f"lane {self.lane}, environment {self.env}, {self.task}: {self.what}; restarted, episode truncated"


Order = dict[str, Any]


class Pool:
    """Rows of environments, lane by lane, in this process (`workers` 0) or shared out among others.

    Invariant: between calls every row shows an observation, whatever happened to its environment.
    """

    def __init__(self, lanes: int, envs: int, arrays: Layout, workers: int = 0, patience: float = PATIENCE) -> None:
        self.rows, self.envs, self.patience = lanes * envs, envs, patience
        count = min(workers, self.rows)
        flags = [(name, (self.rows,), "bool") for name in ("terminated", "truncated", "success", "idle", "done")]
        own = [
            ("reward", (self.rows,), "float32"),
            ("episode", (self.rows,), "int64"),
            ("at", (max(count, 1),), "int64"),
        ]
        layout = [(name, (self.rows, *shape), dtype) for name, shape, dtype in arrays] + own + flags
        buffer, fd = _shared(nbytes(layout)) if count else (bytearray(nbytes(layout)), -1)
        self.arrays: Arrays = views(buffer, layout)
        self.incidents: list[Incident] = []
        self._strikes: dict[int, int] = {}
        self._failed: set[int] = set()
        """Rows that failed in this step."""
        self._orders: dict[int, Order] = {}
        self._slots = Slots(self.arrays) if count == 0 else None
        self._mine = [range(w, self.rows, count) for w in range(count)] if count else [range(self.rows)]
        self._workers = [_Worker(fd, layout) for _ in range(count)]
        if count:
            weakref.finalize(self, os.close, fd)

    def begin(self, orders: Sequence[Order]) -> None:
        """Start rows anew: {row, task, seed}, and where an episode goes on {episode, actions}."""
        for order in orders:
            worker = order["row"] % len(self._mine)
            self._orders[order["row"]] = {"episode": 0, "actions": [], **order, "worker": worker}
        self._start([order["row"] for order in orders])

    def step(self) -> None:
        """Take the actions of all rows that are not idle."""
        self.arrays["done"][:] = False
        if self._slots is not None:
            answers: list[Any] = [self._slots.step(self._mine[0])]
        else:
            answers = self._ask([{"step": list(rows)} for rows in self._mine], self.patience)
        for number, answer in enumerate(answers):
            if isinstance(answer, str):
                self._replace(number, answer)
            else:
                for trouble in answer:
                    self._report(trouble["row"], trouble["what"])
        for row in [row for row in self._strikes if row not in self._failed]:
            del self._strikes[row]  # a good step wipes out what came before
        self._failed.clear()

    def _start(self, rows: Sequence[int]) -> None:
        """Carry out the orders of some rows; a worker that fails at it is replaced and asked again."""
        wanted = [[self._orders[row] for row in mine if row in set(rows)] for mine in self._mine]
        if self._slots is not None:
            self._slots.begin(wanted[0])
            return
        for number, answer in enumerate(self._ask([{"begin": orders} for orders in wanted], START + self.patience)):
            if isinstance(answer, str):
                self._report(int(self.arrays["at"][number]), answer)
                self._workers[number].start()
                self._start(list(self._mine[number]))

    def _replace(self, number: int, what: str) -> None:
        """Start a worker anew after it failed in a step; its rows begin another episode."""
        self._report(int(self.arrays["at"][number]), what)
        for row in self._mine[number]:
            order = self._orders[row]
            if self.arrays["idle"][row]:
                continue
            if not self.arrays["done"][row]:
                cut_off(self.arrays, row)
            elif not self.arrays["terminated"][row] and not self.arrays["truncated"][row]:
                self.arrays["truncated"][row] = True
                self.arrays["episode"][row] += 1
            self._orders[row] = {**order, "episode": int(self.arrays["episode"][row]), "actions": []}
        self._workers[number].start()
        self._start(list(self._mine[number]))

    def _report(self, row: int, what: str) -> None:
        lane, env = divmod(row, self.envs)
        task = self._orders[row]["task"]
        self.incidents.append(Incident(lane, env, task["name"], what))
        self._failed.add(row)
        self._strikes[row] = self._strikes.get(row, 0) + 1
        if self._strikes[row] >= STRIKES:
            raise RuntimeError(f"environment failed {STRIKES} times in a row: {self.incidents[-1]}")

    def _ask(self, orders: Sequence[Mapping[str, Any]], patience: float) -> list[Any]:
        """Tell every worker what to do; each one's answer, or in words why there is none."""
        sent = [worker.send(order) for worker, order in zip(self._workers, orders, strict=True)]
        until = time.monotonic() + patience
        return [
            worker.answer(until) if ok else worker.obituary() for worker, ok in zip(self._workers, sent, strict=True)
        ]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.stop()


def _shared(size: int) -> tuple[Any, int]:
    """Memory that processes share, and the descriptor they find it by; it has no name, so nothing is left behind."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    fd, path = tempfile.mkstemp(dir=folder)
    os.unlink(path)
    os.truncate(fd, size)
    return mmap.mmap(fd, size), fd


class _Worker:
    """One process. Invariant: after `start` it waits for an order."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self.fd, self.layout = fd, layout
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start it, ending the one before."""
        self.stop()
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 — closed by `stop`, or when the worker is gone
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

    def send(self, order: Mapping[str, Any]) -> bool:
        """Whether it took the order."""
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def answer(self, until: float) -> Any:
        """Its answer, or in words why there is none by then."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0.001))
        if not ready:
            return "hung: no answer in time"
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else self.obituary()

    def obituary(self) -> str:
        """How it died."""
        assert self.process is not None
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-300:].decode(errors="replace").strip().splitlines()
        return f"crashed with exit code {code}" + (f" ({said[-1]})" if said else "")

    def stop(self) -> None:
        """End it, whatever it is doing."""
        if self.process is not None:
            self._end()
            self.process = None


def _kill(process: subprocess.Popen[str], errors: IO[bytes]) -> None:
    process.kill()
    process.wait()
    errors.close()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it was still to be told
                pipe.close()
