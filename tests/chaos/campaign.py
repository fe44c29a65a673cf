"""How an attack is carried out: in a child process, unit by unit, with figures that survive an interruption.

A unit is a fixed number of attempts that depends only on the seed and on its own number. The child reports each unit;
if it crashes or hangs, the unit counts as broken and a new child goes on with the next one. Figures are stored as JSON
after each unit, so an interrupted attack continues. If the sources changed, figures start from zero.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "chaos"
SEED = 2026
EXAMPLES = 20
"""Descriptions of broken attempts that are stored."""


@dataclass(frozen=True)
class Verdict:
    """Outcome of a unit. Held: as promised. Refused: with the promised error, nothing changed. Broken: neither."""

    held: int = 0
    refused: int = 0
    broken: tuple[str, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    """Other counts, such as how many kills hit a save that was under way."""


@dataclass(frozen=True)
class Attack:
    """`attempt(prepared, number, size, rng)` makes the attempts of a unit; `prepare(folder)` runs once per process."""

    name: str
    title: str
    counts: str
    """What one attempt is, in the plural."""
    full: int
    """Attempts of the whole campaign."""
    quick: int
    """Attempts that show that the attack works."""
    attempt: Callable[[Any, int, int, random.Random], Verdict]
    prepare: Callable[[Path], Any] = lambda folder: folder
    unit: int = 1
    """Attempts per unit."""
    timeout: float = 300.0
    """Seconds after which a unit counts as hung."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the child."""
    smoke: bool = True
    """Whether a few attempts take seconds, so that they are part of the ordinary tests."""


@dataclass
class Tally:
    """The figures of an attack so far."""

    attack: str
    seed: int
    sources: str
    wanted: int
    units: int = 0
    held: int = 0
    refused: int = 0
    broken: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    notes: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return self.held + self.refused + self.broken

    def count(self, verdict: Verdict) -> None:
        self.units += 1
        self.held += verdict.held
        self.refused += verdict.refused
        self.broken += len(verdict.broken)
        self.notes = dict(Counter(self.notes) + Counter(verdict.notes))
        self.examples = [*self.examples, *verdict.broken][:EXAMPLES]

    def store(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.attack}.json"
        new = path.with_suffix(f".{os.getpid()}.tmp")
        values = {**asdict(self), "attempts": self.attempts}
        new.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
        new.replace(path)


def stored(folder: Path, name: str) -> Tally | None:
    """The stored figures of an attack, if there are any."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    values = json.loads(path.read_text())
    del values["attempts"]
    return Tally(**values)


def sources() -> str:
    """A hash of the library's source files."""
    hasher = hashlib.sha256()
    for path in sorted((ROOT / "src" / "crystalrl").rglob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:12]


def carry_out(attack: Attack, wanted: int, results: Path = RESULTS, seed: int = SEED) -> Tally:
    """Make attempts until there are `wanted`, continuing from stored figures of the same sources and seed."""
    tally = stored(results, attack.name)
    if tally is None or (tally.seed, tally.sources) != (seed, sources()):
        tally = Tally(attack.name, seed, sources(), wanted)
    tally.wanted = wanted
    while tally.attempts < wanted:
        begun, used = time.monotonic(), _processor_seconds()
        for verdict in _from_child(attack, tally):
            tally.seconds = round(tally.seconds + time.monotonic() - begun, 3)
            begun = time.monotonic()
            tally.count(verdict)
            tally.store(results)
        tally.processor_seconds = round(tally.processor_seconds + _processor_seconds() - used, 3)
    tally.store(results)
    return tally


def _processor_seconds() -> float:
    """Of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _from_child(attack: Attack, tally: Tally) -> Iterator[Verdict]:
    """The verdicts of one child process; the last is a broken one if the child ended too soon."""
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder, tempfile.TemporaryFile() as errors:
        order = [attack.name, folder, tally.seed, tally.units, tally.wanted - tally.attempts]
        command = [sys.executable, "-m", "tests.chaos.child", *map(str, order)]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **attack.environment}
        child = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
        )
        try:
            yield from _verdicts(attack, child, errors)
        finally:
            _end(child)


def _verdicts(attack: Attack, child: subprocess.Popen[bytes], errors: IO[bytes]) -> Iterator[Verdict]:
    assert child.stdout is not None
    while True:
        ready, _, _ = select.select([child.stdout], [], [], attack.timeout)
        line = child.stdout.readline() if ready else b""
        if line == b"done\n":
            return
        if not line:
            what = f"ended with {child.wait()}" if ready else f"no answer in {attack.timeout:.0f} s"
            errors.seek(0)
            yield Verdict(broken=(f"{what}: {errors.read()[-1500:].decode(errors='replace').strip()}",))
            return
        values = json.loads(line)
        yield Verdict(**{**values, "broken": tuple(values["broken"])})


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _fast_folder() -> str | None:
    """Where syncing a file costs nothing."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
