"""Memories in other processes, and processes in places where nothing can be written."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from tests.chaos.campaign import ROOT, Attack, Verdict
from tests.chaos.full_disk import namespaces
from tests.chaos.small import KINDS, draws, draws_in_process, live, small

METHODS = ("spawn", "fork", "forkserver")


def prepare(folder: Path) -> Path:
    torch.set_num_threads(1)
    return folder


def give_away(folder: Path, number: int, size: int, rng: random.Random) -> Verdict:
    """A memory sent to another process draws the same batches there."""
    method, kind = METHODS[number % 3], KINDS[number // 3 % 4]
    memory = small(kind, 64)
    for _ in range(rng.randint(1, 100)):
        live(memory)
    try:
        assert draws_in_process(memory, method) == draws(memory), "other draws"
    except Exception as error:
        return Verdict(broken=(f"{method}, {kind}: {error!r}"[:300],))
    return Verdict(held=1)


PROGRAM = """
import hashlib, sys
import numpy as np
import torch
from crystalrl import CrystalMemory, CrystalParams, Transition
torch.set_num_threads(1)
memory = CrystalMemory(64, obs=(3,), action=2, params=CrystalParams.anchored(time_unit=8), anchor={"q": (3,)}, seed=1)
rng = np.random.default_rng(0)
for _ in range(100):
    memory.add(Transition(rng.normal(size=3), 0, float(rng.normal()), rng.normal(size=3), False))
memory.update(memory.sample(16).index, torch.ones(16))
memory.check()
state = memory.state_dict()
print(hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest())
"""


def read_only(folder: Path, number: int, size: int, rng: random.Random) -> Verdict:
    """A package and a home in which nothing can be written: the same results as elsewhere."""
    package = folder / f"package-{number}"
    shutil.copytree(ROOT / "src" / "crystalrl", package / "crystalrl", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [package, *package.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    program = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    here = subprocess.run(program, capture_output=True, text=True, check=False)
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "PYTHONPATH": str(package)}
    there = subprocess.run(
        [*mounted_read_only(package), *program], env={**os.environ, **nowhere}, cwd="/", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    compiled = list(package.rglob("__pycache__"))
    shutil.rmtree(package, ignore_errors=True)
    if there.returncode == 0 and there.stdout == here.stdout and not compiled:
        return Verdict(held=1)
    return Verdict(broken=(f"{there.returncode}: {there.stderr[-300:] or 'other results'}",))


def no_read_only() -> str:
    return "" if os.geteuid() != 0 or namespaces() else "wanted user namespaces, or a user other than root, got neither"


def mounted_read_only(folder: Path) -> list[str]:
    """The beginning of a command that sees the folder mounted read-only; for root, permissions are no obstacle."""
    if os.geteuid() != 0:
        return []
    mount = f'mount --bind "{folder}" "{folder}" && mount -o remount,bind,ro "{folder}" && exec "$@"'
    return ["unshare", "-Urm", "sh", "-c", mount, "sh"]


ATTACKS = (
    Attack(
        "start-methods",
        "Memory given to a spawned or forked process",
        "processes",
        60,
        2,
        give_away,
        prepare,
        smoke=False,
    ),
    Attack(
        "read-only",
        "Package and home are read-only",
        "processes",
        5,
        1,
        read_only,
        prepare,
        smoke=False,
        lacks=no_read_only,
    ),
)
