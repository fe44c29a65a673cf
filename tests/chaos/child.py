"""The child process of an attack: `python -m tests.chaos.child NAME FOLDER SEED FIRST ATTEMPTS` prints its verdicts."""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path

from tests.chaos.campaign import Attack


def found(name: str) -> Attack:
    """An attack on the library, or one of those that the campaign's own test makes up and that start at once."""
    if name.startswith("made-up"):
        from tests.chaos.made_up import ATTACKS as MADE_UP

        return {attack.name: attack for attack in MADE_UP}[name]
    from tests.chaos.attacks import ATTACKS

    return ATTACKS[name]


def main(name: str, folder: str, seed: str, first: str, attempts: str) -> None:
    """One line of JSON per unit; standard output is otherwise empty, whatever the library prints."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    attack, number, left = found(name), int(first), int(attempts)
    prepared = attack.prepare(Path(folder))
    while left > 0:
        rng = random.Random(f"{seed} {name} {number}")
        verdict = attack.attempt(prepared, number, min(attack.unit, left), rng)
        answers.write(json.dumps(asdict(verdict)) + "\n")
        number += 1
        left -= verdict.held + verdict.refused + len(verdict.broken)
    answers.write("done\n")
    answers.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
