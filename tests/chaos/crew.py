"""How attacks are carried out: by several child processes at once, unit by unit.

Each job drives a child process. The child is given the numbers of units, one by one, and answers with their outcomes.
If it crashes or hangs, the unit counts as broken and a new child goes on with the next one. A child that cannot be
prepared leaves its attack undone.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import IO

from tests.chaos.campaign import RESULTS, ROOT, SEED, Attack, Outcome, Tally, Verdict, begun

ROOM = 4 << 30
"""Free bytes that a file system in memory must have to be used."""

PATIENCE = 10.0
"""Seconds in which a job that was stopped should have ended its child."""


@dataclass
class Order:
    """An attack that is under way, or why it cannot be carried out."""

    attack: Attack
    tally: Tally
    undone: str = ""
    jobs: int = 0
    """Children at work."""
    given: set[int] = field(default_factory=set)
    """Units that children have."""

    @property
    def size(self) -> int:
        """Attempts per unit."""
        return min(self.attack.unit, self.tally.wanted)

    def next(self) -> int | None:
        """The unit to carry out next; None if there will be enough attempts without it."""
        coming = sum(outcome.attempts for outcome in self.tally.ahead.values()) + len(self.given) * self.size
        if self.undone or self.tally.attempts + coming >= self.tally.wanted:
            return None
        number = self.tally.units
        while number in self.tally.ahead or number in self.given:
            number += 1
        return number

    @property
    def over(self) -> bool:
        return bool(self.undone) or self.tally.complete


class Crew:
    """Jobs that carry out orders. Each takes the order with the fewest jobs, so all end at about the same time."""

    def __init__(self, orders: Sequence[Order], results: Path, tell: Callable[[Order], None]) -> None:
        self.orders, self.results, self.tell = orders, results, tell
        self.changed = threading.Condition()
        self.children: set[Child] = set()
        self.stopped = False

    def work(self, jobs: int) -> None:
        threads = [threading.Thread(target=self._job, daemon=True) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            self._stop()
            for thread in threads:
                thread.join(PATIENCE)

    def _stop(self) -> None:
        with self.changed:
            self.stopped = True
            for child in self.children:
                child.end()

    def _job(self) -> None:
        while (order := self._choose()) is not None:
            with Child(order.attack, order.tally.seed, order.size) as child:
                with self.changed:
                    self.children.add(child)
                try:
                    self._drive(order, child)
                finally:
                    with self.changed:
                        self.children.discard(child)
                        order.jobs -= 1
                        self.changed.notify_all()

    def _choose(self) -> Order | None:
        """The order for which another child is wanted; None if all are over."""
        with self.changed:
            while not self.stopped and not all(order.over for order in self.orders):
                if wanted := [order for order in self.orders if order.next() is not None]:
                    chosen = min(wanted, key=lambda order: order.jobs)
                    chosen.jobs += 1
                    return chosen
                self.changed.wait()
            return None

    def _drive(self, order: Order, child: Child) -> None:
        """Give units to a child until none is left, or the child has ended."""
        try:
            prepared = child.answer()
        except Ended as ended:
            self._give_up(order, f"could not be prepared: {ended}")
            return
        with self.changed:
            order.tally.seconds = round(order.tally.seconds + prepared.seconds, 3)
            order.tally.processor_seconds = round(order.tally.processor_seconds + prepared.processor_seconds, 3)
        while (number := self._take(order)) is not None:
            begin = time.monotonic()
            try:
                outcome = child.carry_out(number)
            except Ended as ended:
                outcome = Outcome(Verdict(broken=(str(ended),)), round(time.monotonic() - begin, 3))
                self._put(order, number, outcome)
                return
            self._put(order, number, outcome)

    def _take(self, order: Order) -> int | None:
        with self.changed:
            number = None if self.stopped else order.next()
            if number is not None:
                order.given.add(number)
            return number

    def _put(self, order: Order, number: int, outcome: Outcome) -> None:
        with self.changed:
            order.given.discard(number)
            if self.stopped or order.over:
                return
            order.tally.take(number, outcome)
            order.tally.store(self.results)
            self.changed.notify_all()
            if order.over:
                self.tell(order)

    def _give_up(self, order: Order, why: str) -> None:
        with self.changed:
            if not self.stopped and not order.over:
                order.undone = why
                self.changed.notify_all()
                self.tell(order)


class Ended(Exception):
    """A child process that ended or hung, and how."""


class Child:
    """A process that carries out units of an attack, in a folder and a session of its own."""

    def __init__(self, attack: Attack, seed: int, size: int) -> None:
        self.timeout = attack.timeout
        self.folder = tempfile.mkdtemp(dir=fast_folder())
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 — closed by `__exit__`
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.child", attack.name, self.folder, str(seed), str(size)],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **attack.environment},
            start_new_session=True,
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a number that was not delivered
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """End the process and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def carry_out(self, number: int) -> Outcome:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # `answer` tells how it ended
            self.process.stdin.write(f"{number}\n".encode())
            self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Outcome:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        line = self.process.stdout.readline() if ready else b""
        if line.endswith(b"\n"):
            return Outcome.of(loads(line))
        what = f"ended with {self.process.wait()}" if ready else f"no answer in {self.timeout:.0f} s"
        self.errors.seek(0)
        raise Ended(f"{what}: {self.errors.read()[-1500:].decode(errors='replace').strip()}")


def fast_folder() -> str | None:
    """A folder in which syncing a file costs nothing, if there is room for one."""
    folder = "/dev/shm"
    return folder if os.path.isdir(folder) and shutil.disk_usage(folder).free >= ROOM else None


def carry_out(
    attacks: Sequence[tuple[Attack, int]],
    results: Path = RESULTS,
    jobs: int = 1,
    seed: int = SEED,
    tell: Callable[[Order], None] = lambda order: None,
) -> list[Order]:
    """Make attempts until each attack has the wanted number, continuing from stored figures. `tell` is called for each
    attack that is over. An attack that cannot be carried out here is left as it is.
    """
    orders = []
    for attack, wanted in attacks:
        orders.append(Order(attack, begun(results, attack.name, wanted, seed), attack.lacks()))
        if orders[-1].over:
            tell(orders[-1])
    Crew(orders, results, tell).work(jobs)
    return orders
