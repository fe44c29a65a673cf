"""Processes killed while they save a memory: the file is always the old one or the new one.

The parent holds a twin that lives the same life, so what was loaded is compared bit for bit.
"""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from crystalrl import load_memory
from crystalrl.memory import ReplayMemory
from tests.chaos.campaign import Attack, Verdict
from tests.chaos.small import KINDS, live, same, small

KILLS = 10
CAPACITY = 1_000


@dataclass
class Twin:
    """The same life here; it loads the file whenever the child does, since loading restarts the generations."""

    path: Path
    memory: ReplayMemory


def prepare(folder: Path) -> dict[str, Twin]:
    torch.set_num_threads(1)
    twins = {}
    for kind in KINDS:
        (folder / kind).mkdir()
        twins[kind] = Twin(folder / kind / "memory", small(kind, CAPACITY))
        live(twins[kind].memory)
        twins[kind].memory.save(twins[kind].path)
        twins[kind].memory = load_memory(twins[kind].path)
    return twins


def attempt(twins: dict[str, Twin], number: int, size: int, rng: random.Random) -> Verdict:
    twin, broken, cut = twins[KINDS[number % len(KINDS)]], [], 0
    for _ in range(size):
        said = killed(twin.path, rng.uniform(0.0, 0.03))
        left = [path.name for path in twin.path.parent.iterdir() if path != twin.path]
        cut += len(left)
        try:
            compare(twin, said)
            assert len(left) <= 1, left
        except Exception as error:
            broken.append(f"{twin.path.name}: {error!r}"[:500])
    return Verdict(size - len(broken), broken=tuple(broken), notes={"killed inside a save": cut})


def killed(path: Path, after: float) -> list[int]:
    """Kill a process that saves without pause; the numbers of the steps that it said were saved."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(path, write)
    os.close(write)
    first = os.read(read, 8)  # it is at work
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        rest = pipe.read()
    told = first + rest
    return [int.from_bytes(told[at : at + 8], "little") for at in range(0, len(told), 8)]


def save_for_ever(path: Path, report: int) -> None:
    try:
        memory = load_memory(path)
        while True:
            number = live(memory)
            memory.save(path)
            os.write(report, number.to_bytes(8, "little"))
    finally:
        os._exit(1)


def compare(twin: Twin, said: list[int]) -> None:
    """The file holds the last step that was reported, or the one after."""
    assert said, "the process ended by itself"
    loaded = load_memory(twin.path)
    loaded.check()
    number = int(loaded.time[0])
    assert number in (said[-1], said[-1] + 1), (number, said[-1])
    while int(twin.memory.time[0]) < number:
        live(twin.memory)
    same(loaded, twin.memory)
    twin.memory = loaded


ATTACKS = (
    Attack("killed-saves", "Process killed while it saves a memory", "kills", 1_000, 10, attempt, prepare, KILLS),
)
