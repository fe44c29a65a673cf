"""Attacks on nothing, with known outcomes: for the tests of the campaign itself."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.chaos.campaign import Attack, Verdict, packages


def counted(folder: Path, number: int, size: int, rng: random.Random) -> Verdict:
    """Every third is refused; random draws are recorded."""
    refused = int(number % 3 == 2)
    return Verdict(size - refused, refused, notes={"drawn": rng.randrange(1000), "units": 1})


def crash(folder: Path, number: int, size: int, rng: random.Random) -> Verdict:
    if number == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Verdict(held=1)


def hang(folder: Path, number: int, size: int, rng: random.Random) -> Verdict:
    if number == 1:
        time.sleep(3600)
    return Verdict(held=1)


def unprepared(folder: Path) -> Path:
    raise LookupError("nothing to attack")


ATTACKS = (
    Attack("made-up-counted", "", "attempts", 20, 2, counted, unit=2),
    Attack("made-up-crash", "", "attempts", 4, 2, crash),
    Attack("made-up-hang", "", "attempts", 3, 2, hang, timeout=2.0),
    Attack("made-up-unprepared", "", "attempts", 3, 2, counted, unprepared),
    Attack("made-up-lacking", "", "attempts", 3, 2, counted, lacks=packages("no_such_package")),
)
