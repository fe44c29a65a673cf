"""Readers next to a process that saves without pause: what is read is always one whole file."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path

import torch

from crystalrl import load_memory
from crystalrl.memory import ReplayMemory
from tests.chaos.campaign import Attack, Verdict
from tests.chaos.small import KINDS, live, same, small

READS = 20


@dataclass(frozen=True)
class Pair:
    """Two states of one memory, by their time."""

    path: Path
    states: dict[int, ReplayMemory]
    reader: ReplayMemory


def prepare(folder: Path) -> list[Pair]:
    torch.set_num_threads(1)
    pairs = []
    for kind in KINDS:
        states = {}
        for steps in (5, 300):
            memory = small(kind, 400)
            while live(memory) < steps:
                pass
            memory.save(folder / f"{kind}-{steps}")
            states[steps] = load_memory(folder / f"{kind}-{steps}")
        pairs.append(Pair(folder / kind, states, small(kind, 400)))
    return pairs


def attempt(pairs: list[Pair], number: int, size: int, rng: random.Random) -> Verdict:
    pair, broken = pairs[number % len(pairs)], []
    pair.states[5].save(pair.path)
    saver = os.fork()
    if saver == 0:
        save_for_ever(pair)
    try:
        for k in range(size):
            try:
                read(pair, fresh=k % 2 == 0)
            except Exception as error:
                broken.append(repr(error)[:300])
    finally:
        os.kill(saver, signal.SIGKILL)
        os.waitpid(saver, 0)
    return Verdict(size - len(broken), broken=tuple(broken))


def read(pair: Pair, fresh: bool) -> None:
    if fresh:
        memory = load_memory(pair.path)
    else:
        memory = pair.reader
        memory.load(pair.path)
    memory.check()
    if fresh:
        same(memory, pair.states[int(memory.time[0])])
    else:
        assert int(memory.time[0]) in pair.states


def save_for_ever(pair: Pair) -> None:
    try:
        while True:
            for memory in pair.states.values():
                memory.save(pair.path)
    finally:
        os._exit(1)


ATTACKS = (Attack("readers", "File read while another process saves it", "reads", 2_000, 20, attempt, prepare, READS),)
