"""The child process of an attack: `python -m tests.chaos.child NAME FOLDER SEED SIZE`.

It reads the numbers of units of SIZE attempts from standard input and answers each with a line of JSON, after a first
line once it is prepared.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.chaos.campaign import Attack, Outcome, Verdict


def found(name: str) -> Attack:
    """An attack on the library, or one of those that the campaign's own test makes up and that start at once."""
    if name.startswith("made-up"):
        from tests.chaos.made_up import ATTACKS as MADE_UP

        return {attack.name: attack for attack in MADE_UP}[name]
    from tests.chaos.attacks import ATTACKS

    return ATTACKS[name]


class Clock:
    """Seconds since the last call, and processor seconds of this process and of its children that have ended."""

    def __init__(self) -> None:
        self.last = (time.monotonic(), 0.0)

    def __call__(self) -> tuple[float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        now = (time.monotonic(), sum(each.ru_utime + each.ru_stime for each in used))
        passed, busy = (new - old for new, old in zip(now, self.last, strict=True))
        self.last = now
        return round(passed, 3), round(busy, 3)


def main(name: str, folder: str, seed: str, size: str) -> None:
    """Standard output has the answers only, whatever the library prints."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    clock, attack = Clock(), found(name)
    prepared = attack.prepare(Path(folder))
    answers.write(json.dumps(asdict(Outcome(Verdict(), *clock()))) + "\n")
    for line in iter(sys.stdin.readline, ""):
        number = int(line)
        clock()
        verdict = attack.attempt(prepared, number, int(size), random.Random(f"{seed} {name} {number}"))
        answers.write(json.dumps(asdict(Outcome(verdict, *clock()))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
