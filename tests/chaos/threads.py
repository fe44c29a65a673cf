"""Threads that use one memory at the same time: overlapping calls raise, and nothing breaks."""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

import numpy as np
import torch

from crystalrl.memory import ReplayMemory
from tests.chaos.campaign import Attack, Verdict
from tests.chaos.small import KINDS, critic, fill, small, step, use

THREADS = 3
CALLS = 20


def prepare(folder: Path) -> Path:
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-5)  # threads take turns as often as possible
    return folder


def attempt(folder: Path, number: int, size: int, rng: random.Random) -> Verdict:
    """Threads with random calls; then one thread goes on alone."""
    memory, wrong, refused = small(KINDS[number % len(KINDS)], 64), [], []
    fill(memory, 40, number)
    begin = threading.Barrier(THREADS)

    def work(own: random.Random) -> None:
        begin.wait()
        for _ in range(CALLS):
            try:
                call(memory, own, folder / f"memory-{number}")
            except RuntimeError as error:
                (refused if "thread" in str(error) else wrong).append(repr(error))
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(random.Random(rng.random()),)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return judged(memory, wrong, len(refused))


def judged(memory: ReplayMemory, wrong: list[str], refused: int) -> Verdict:
    kind = type(memory).__name__
    try:
        use(memory)
    except Exception as error:
        wrong = [*wrong, f"afterwards {error!r}"]
    if wrong:
        return Verdict(broken=(f"{kind}: {wrong[0]}"[:400],))
    return Verdict(held=1, notes={"calls that were refused": refused, "calls": THREADS * CALLS})


def call(memory: ReplayMemory, rng: random.Random, path: Path) -> None:
    what = rng.choice(["add", "add", "sample", "sample", "update", "consolidate", "save", "load"])
    if what == "add":
        memory.add(step(np.random.default_rng(rng.randrange(1000))))
    elif what == "sample":
        memory.sample(16)
    elif what == "update":
        memory.update(memory.sample(16).index, torch.ones(16))
    elif what == "consolidate":
        memory.consolidate(critic)
    elif what == "save":
        memory.save(path)
    elif path.exists():
        memory.load(path)


ATTACKS = (Attack("threads", "Several threads use one memory", "memories", 500, 8, attempt, prepare),)
