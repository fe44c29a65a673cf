"""A few attempts of each attack, in forks of one process: imports, which take most of the time, are made once.

`python -m tests.chaos.smoke` prints the verdicts as JSON.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.chaos.attacks import ATTACKS
from tests.chaos.campaign import SEED, Attack, Verdict
from tests.chaos.crew import fast_folder
from tests.chaos.killed_studies import load_kernels

WITHOUT_NUMBA = {"fuzz-no-numba"}


def verdicts(names: list[str]) -> dict[str, Verdict]:
    """The outcome of the first unit of each attack.

    Compiled code is loaded once, after the attacks for which numba must not be there.
    """
    found: dict[str, Verdict] = {}
    possible = [name for name in names if ATTACKS[name].smoke and not ATTACKS[name].lacks()]
    for name in sorted(possible, key=lambda name: name not in WITHOUT_NUMBA):
        if name not in WITHOUT_NUMBA and set(found) <= WITHOUT_NUMBA:
            load_kernels()
        found[name] = in_a_fork(ATTACKS[name])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(name, found[name], f"{used.ru_utime + used.ru_stime:.1f} s", file=sys.stderr, flush=True)
    return found


def in_a_fork(attack: Attack) -> Verdict:
    folder = Path(tempfile.mkdtemp(dir=fast_folder()))
    try:
        child = os.fork()
        if child == 0:
            answer(attack, folder)
        status = os.waitpid(child, 0)[1]
        path = folder / "verdict.json"
        if status != 0 or not path.exists():
            return Verdict(broken=(f"ended with status {status}",))
        values = json.loads(path.read_text())
        return Verdict(**{**values, "broken": tuple(values["broken"])})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answer(attack: Attack, folder: Path) -> None:
    """The child: one unit of at most the quick number of attempts."""
    code = 1
    try:
        os.environ.update(attack.environment)
        os.chdir(folder)
        rng = random.Random(f"{SEED} {attack.name} 0")
        verdict = attack.attempt(attack.prepare(folder), 0, min(attack.unit, attack.quick), rng)
        (folder / "verdict.json").write_text(json.dumps(asdict(verdict)))
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    print(json.dumps({name: asdict(verdict) for name, verdict in verdicts(list(ATTACKS)).items()}))
