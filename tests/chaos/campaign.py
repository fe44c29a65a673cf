"""What an attack is, and the figures of an attack.

A unit is a fixed number of attempts that depends only on the seed, the name of the attack and its own number. Units are
counted in the order of their numbers, until there are as many attempts as wanted: so figures do not depend on how many
processes took part. Figures are stored as JSON after each unit, so an interrupted attack continues. If the sources
changed, figures start from zero.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VARIABLE = "CRYSTALRL_CHAOS_RESULTS"
"""Environment variable: the folder of the figures."""
RESULTS = Path(os.environ.get(VARIABLE) or ROOT / "results" / "chaos")
SEED = 2026
EXAMPLES = 20
"""Descriptions of broken attempts that are stored."""


def nothing() -> str:
    return ""


def packages(*names: str) -> Callable[[], str]:
    """For `Attack.lacks`: the packages that are not installed."""

    def lacks() -> str:
        missing = [name for name in names if find_spec(name) is None]
        return f"wanted the package {', '.join(missing)}, got none" if missing else ""

    return lacks


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
    """Whether a few attempts are part of the ordinary tests: of attacks that are alike, one is, and none that takes
    minutes."""
    lacks: Callable[[], str] = nothing
    """Why the attack cannot be carried out on this machine; empty if it can."""


@dataclass(frozen=True)
class Outcome:
    """A unit that was carried out."""

    verdict: Verdict
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @property
    def attempts(self) -> int:
        return self.verdict.held + self.verdict.refused + len(self.verdict.broken)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Outcome:
        """From what `asdict` gives, through JSON."""
        verdict = values["verdict"]
        return cls(Verdict(**{**verdict, "broken": tuple(verdict["broken"])}), *list(values.values())[1:])


@dataclass
class Tally:
    """The figures of an attack so far: of its first `units` units."""

    attack: str
    seed: int
    sources: str
    wanted: int
    units: int = 0
    held: int = 0
    refused: int = 0
    broken: int = 0
    seconds: float = 0.0
    """Of all processes together."""
    processor_seconds: float = 0.0
    notes: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    ahead: dict[int, Outcome] = field(default_factory=dict)
    """Units that were carried out before one with a lower number."""

    @property
    def attempts(self) -> int:
        return self.held + self.refused + self.broken

    @property
    def complete(self) -> bool:
        return self.attempts >= self.wanted

    def take(self, number: int, outcome: Outcome) -> None:
        """Count a unit as soon as those before it are counted. Those that are not needed are dropped."""
        self.ahead[number] = outcome
        self.seconds = round(self.seconds + outcome.seconds, 3)
        self.processor_seconds = round(self.processor_seconds + outcome.processor_seconds, 3)
        while not self.complete and self.units in self.ahead:
            self._count(self.ahead.pop(self.units).verdict)
        if self.complete:
            self.ahead = {}

    def _count(self, verdict: Verdict) -> None:
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
    ahead = {int(number): Outcome.of(outcome) for number, outcome in values.pop("ahead", {}).items()}
    return Tally(**values, ahead=ahead)


def begun(folder: Path, name: str, wanted: int, seed: int) -> Tally:
    """The stored figures of the same sources and seed, or new ones."""
    tally = stored(folder, name)
    if tally is None or (tally.seed, tally.sources) != (seed, sources()):
        tally = Tally(name, seed, sources(), wanted)
    tally.wanted = wanted
    return tally


def sources() -> str:
    """A hash of the library's source files."""
    hasher = hashlib.sha256()
    for path in sorted((ROOT / "src" / "crystalrl").rglob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:12]
