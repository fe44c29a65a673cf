"""Frames stored once, as codes, compared with observations stored whole: bytes per experience and speed, 4 frames of
84 × 84, of Atari games under a random policy and of noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Part, Result, Setting, in_parts, machine
from benchmarks.harness.timing import Job, interleaved, medians
from crystalrl import CrystalMemory, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from crystalrl.suites.atari import SCORES
from crystalrl.suites.makers import atari, close

STACK, SIDE, EPISODE, ACTIONS = 4, 84, 1000, 18
IMAGES: dict[str, Any] = {"obs": (STACK, SIDE, SIDE), "obs_dtype": torch.uint8, "action": ACTIONS}
TIMES = 15
"""Steps of a stream, in capacities of a memory."""
KEPT = 0.03
"""Share of a crystal memory's experiences that are pinned, until half of the slots are."""
KINDS: dict[str, tuple[Callable[..., ReplayMemory], dict[str, Any]]] = {
    "uniform": (UniformMemory, {}),
    "prioritized": (PrioritizedMemory, {}),
    "reservoir, half of it recent": (ReservoirMemory, {}),
    "reservoir, nothing recent": (ReservoirMemory, {"recent": 0.0}),
    "reservoir, nothing recent, n_step=3": (ReservoirMemory, {"recent": 0.0, "n_step": 3}),
    "crystal, half of it kept at random": (CrystalMemory, {}),
}
TIMED = {"Breakout": "an easy game", "Krull": "the largest"}


def noise() -> Iterator[Transition]:
    """An environment that shows a frame of noise at every step; an episode begins with its first frame repeated."""
    rng, number = np.random.default_rng(0), 0

    def frame() -> np.ndarray:
        return rng.integers(1, 256, (SIDE, SIDE), dtype=np.uint8)

    stack = np.stack([frame()] * STACK)
    while True:
        number += 1
        follows, ends = np.concatenate([stack[1:], frame()[None]]), number % EPISODE == 0
        yield Transition(stack, int(rng.integers(ACTIONS)), float(rng.normal()), follows, ends)
        stack = np.stack([frame()] * STACK) if ends else follows


def game(name: str) -> Iterator[Transition]:
    """A random policy in an Atari game."""
    env, rng = atari(name), np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    try:
        while True:
            action = int(rng.integers(ACTIONS))
            follows, reward, terminated, truncated, _ = env.step(action)
            yield Transition(obs, action, float(reward), follows, terminated, truncated)
            obs = env.reset()[0] if terminated or truncated else follows
    finally:
        close(env)


def pin_some(memory: ReplayMemory, slots: torch.Tensor, rng: np.random.Generator) -> int:
    """Pin new experiences of a crystal memory at random; how many."""
    new = [slot for slot in slots.reshape(-1).tolist() if slot >= 0 and rng.random() < KEPT]
    if not isinstance(memory, CrystalMemory) or not new:
        return 0
    memory.pin(torch.tensor(new))
    return len(new)


def bytes_each(stream: Iterable[Transition], capacity: int) -> dict[str, float]:
    """Bytes per experience of each kind of memory, once `TIMES` its capacity has been added."""
    memories = {name: kind(capacity, stack=STACK, **IMAGES, **options) for name, (kind, options) in KINDS.items()}
    rng, pinned = np.random.default_rng(1), 0
    for step in islice(stream, TIMES * capacity):
        for memory in memories.values():
            slots = memory.add(step)
            if pinned < capacity // 2:
                pinned += pin_some(memory, slots, rng)
    return {name: memory.nbytes / capacity for name, memory in memories.items()}


def measured_bytes(quick: bool) -> Result:
    capacity, games = (20, ["Pong"]) if quick else (250, list(SCORES))
    whole = {name: kind(capacity, **IMAGES, **options).nbytes / capacity for name, (kind, options) in KINDS.items()}
    found = {name: bytes_each(game(name), capacity) for name in games}
    return {"capacity": capacity, "whole": whole, "noise": bytes_each(noise(), capacity), "games": found}


def measured_speed(quick: bool) -> Result:
    """Microseconds of `add` and `sample`, once five times the capacity has been added."""
    capacity, rounds = (300, 3) if quick else (2000, 15)
    jobs = dict[str, Job]()
    for name in TIMED:
        given = list(islice(game(name), 500 if quick else 3000))
        for kind in (UniformMemory, ReservoirMemory):
            for how, stack in (("once", STACK), ("whole", None)):
                memory = kind(capacity, stack=stack, **IMAGES)
                for number in range(5 * capacity):
                    memory.add(given[number % len(given)])
                label = f"{name}, {'uniform' if kind is UniformMemory else 'reservoir'}"
                jobs[f"{label}: add, {how}"] = Job(_adding(memory, given), 300)
                jobs[f"{label}: sample(32), {how}"] = Job(partial(memory.sample, 32), 50)
                jobs[f"{label}: sample(256), {how}"] = Job(partial(memory.sample, 256), 10)
    return {"microseconds": medians(interleaved(jobs, rounds), 1e-6), "machine": machine("numba")}


def _adding(memory: ReplayMemory, given: list[Transition]) -> Callable[[], object]:
    count = iter(range(10**9))
    return lambda: memory.add(given[next(count) % len(given)])


def measure(setting: Setting) -> Iterator[Result]:
    parts: dict[str, Part] = {
        "bytes": lambda: measured_bytes(setting.quick),
        "speed": lambda: measured_speed(setting.quick),
    }
    return in_parts(setting, parts)


def block(result: Result) -> str:
    games, rows = result["games"], []
    for name in KINDS:
        each = {game: found[name] for game, found in games.items()}
        largest = max(each, key=lambda game: each[game])
        mean = sum(each.values()) / len(each)
        cells = (f"{mean:,.0f}", f"{each[largest]:,.0f} ({largest})", f"{result['noise'][name]:,.0f}")
        rows.append([name, *cells, f"{result['whole'][name]:,.0f}"])
    head = ["bytes per experience", f"mean of {len(games)} games", "largest game", "noise", "stored whole"]
    took, times = result["microseconds"], []
    for name in dict.fromkeys(name.rpartition(", ")[0] for name in took):
        once, whole = took[f"{name}, once"], took[f"{name}, whole"]
        times.append([name, f"{once:,.0f}", f"{whole:,.0f}", f"{once / whole:.2f}"])
    speed = table(["microseconds", "stored once", "stored whole", "ratio"], times)
    return "\n\n".join([table(head, rows), speed, measured_on(result["machine"])])
