"""Frames stored once, compared with observations stored whole: bytes per experience and speed, 4 frames of 84 × 84."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Part, Result, Setting, in_parts, machine
from benchmarks.harness.timing import Job, interleaved, medians
from crystalrl import CrystalMemory, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory

STACK, SIDE, EPISODE = 4, 84, 1000
IMAGES: dict[str, Any] = {"obs": (STACK, SIDE, SIDE), "obs_dtype": torch.uint8, "action": 4}
KEPT = 0.05
"""Share of a crystal memory's experiences that are pinned, until half of the slots are."""


def steps(count: int) -> Iterator[Transition]:
    """An environment that shows a new frame at every step; an episode begins with its first frame repeated."""
    rng = np.random.default_rng(0)

    def frame() -> np.ndarray:
        return rng.integers(1, 256, (SIDE, SIDE), dtype=np.uint8)

    stack = np.stack([frame()] * STACK)
    for number in range(1, count + 1):
        follows, ends = np.concatenate([stack[1:], frame()[None]]), number % EPISODE == 0
        yield Transition(stack, int(rng.integers(4)), float(rng.normal()), follows, ends)
        stack = np.stack([frame()] * STACK) if ends else follows


def pin_some(memory: ReplayMemory, slots: torch.Tensor, rng: np.random.Generator) -> int:
    """Pin new experiences of a crystal memory at random; how many."""
    new = [slot for slot in slots.reshape(-1).tolist() if slot >= 0 and rng.random() < KEPT]
    if not isinstance(memory, CrystalMemory) or not new:
        return 0
    memory.pin(torch.tensor(new))
    return len(new)


def bytes_of(kind: Callable[..., ReplayMemory], capacity: int, **options: Any) -> dict[str, float]:
    """Bytes per experience once ten times the capacity has been added: stored once, and whole."""
    memory, rng, pinned = kind(capacity, stack=STACK, **IMAGES, **options), np.random.default_rng(1), 0
    for step in steps(10 * capacity):
        slots = memory.add(step)
        if pinned < capacity // 2:
            pinned += pin_some(memory, slots, rng)
    whole = kind(capacity, **IMAGES, **options).nbytes
    return {"once": memory.nbytes / capacity, "whole": whole / capacity}


def measured_bytes(quick: bool) -> Result:
    capacity = 200 if quick else 2000
    kinds: dict[str, tuple[Callable[..., ReplayMemory], dict[str, Any]]] = {
        "uniform": (UniformMemory, {}),
        "prioritized": (PrioritizedMemory, {}),
        "reservoir, half of it recent": (ReservoirMemory, {}),
        "reservoir, nothing recent": (ReservoirMemory, {"recent": 0.0}),
        "crystal, half of it kept at random": (CrystalMemory, {}),
    }
    found = {
        name: {str(n): bytes_of(kind, capacity, n_step=n, **options) for n in (1, 3)}
        for name, (kind, options) in kinds.items()
    }
    return {"capacity": capacity, "bytes_per_experience": found}


def measured_speed(quick: bool) -> Result:
    """Microseconds of `add` and `sample(32)`, once five times the capacity has been added."""
    capacity, rounds = (200, 3) if quick else (2000, 15)
    given, jobs = list(steps(500)), dict[str, Job]()
    for kind in (UniformMemory, ReservoirMemory):
        for name, stack in (("once", STACK), ("whole", None)):
            memory = kind(capacity, stack=stack, **IMAGES)
            for number in range(5 * capacity):
                memory.add(given[number % len(given)])
            label = "uniform" if kind is UniformMemory else "reservoir"
            jobs[f"{label}: add {name}"] = Job(_adding(memory, given), 500)
            jobs[f"{label}: sample {name}"] = Job(partial(memory.sample, 32), 200)
    return {"microseconds": medians(interleaved(jobs, rounds), 1e-6), "machine": machine("numpy")}


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
    rows = [
        [name, *(f"{part['once']:,.0f}" for part in parts.values()), f"{parts['1']['whole']:,.0f}"]
        for name, parts in result["bytes_per_experience"].items()
    ]
    sizes = table(["bytes per experience", "n_step=1", "n_step=3", "stored whole"], rows)
    took = result["microseconds"]
    rows = [
        [name, f"{took[f'{name} once']:.0f}", f"{took[f'{name} whole']:.0f}",
         f"{took[f'{name} once'] / took[f'{name} whole']:.2f}"]
        for name in ("uniform: add", "uniform: sample", "reservoir: add", "reservoir: sample")
    ]  # fmt: skip
    speed = table(["microseconds", "stored once", "stored whole", "ratio"], rows)
    return "\n\n".join([sizes, speed, measured_on(result["machine"])])
