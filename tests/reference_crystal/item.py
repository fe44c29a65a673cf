"""An experience as the twin holds it, and what is asked of single experiences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from crystalrl.backends.splitmix import mix_int
from crystalrl.params import CrystalParams
from crystalrl.random import Stream, lane_key
from tests.reference import GOLDEN, Experience, unit

LIQUID, GLASS, CRYSTAL = "liquid", "glass", "crystal"
ORDER = (LIQUID, GLASS, CRYSTAL)
f32 = np.float32


@dataclass(eq=False)
class Item:
    """An experience and all the memory knows of it."""

    data: Experience
    birth: int
    updated: int
    env: int
    c: float = 0.0
    held: float = 0.0
    phase: str = LIQUID
    utility: float = 0.0
    error: float = 0.0
    interference: float = 0.0
    key: float = 0.0
    streak: int = 0
    evaluated: bool = False
    pinned: bool = False
    boost: float = 0.0
    base: float = 1.0
    anchors: dict[str, np.ndarray] = field(default_factory=dict)


Items = dict[int, Item]
"""By slot."""
Near = dict[int, list[int]]
"""For each slot others, nearest first."""
Rounded = Callable[[str, int, float], float]
"""(column, slot, number) → the number as it is stored."""


def exact(name: str, slot: int, value: float) -> float:
    """A twin on its own rounds nothing."""
    return value


def vector(item: Item) -> np.ndarray:
    state = np.asarray(item.data.obs)
    return state if isinstance(item.data.action, int) else np.concatenate([state, item.data.action])


def spread(vectors: np.ndarray) -> np.ndarray:
    """Standard deviation of each coordinate; 1 where it does not vary."""
    deviation = vectors.std(0)
    return np.where(deviation > 1e-6 * (1 + np.abs(vectors.mean(0))), deviation, 1.0)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(float(((np.asarray(a, np.float64) - np.asarray(b, np.float64)) ** 2).sum()))


def compared_states(items: Items, p: CrystalParams) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """States and successor states as they are compared."""
    if p.raw_distance:
        return {s: e.data.obs for s, e in items.items()}, {s: e.data.next_obs for s, e in items.items()}
    states = np.array([e.data.obs for e in items.values()], dtype=np.float64)
    mean, deviation = states.mean(0), spread(states)
    return (
        {s: (e.data.obs - mean) / deviation for s, e in items.items()},
        {s: (e.data.next_obs - mean) / deviation for s, e in items.items()},
    )


def neighbours(items: Items, p: CrystalParams) -> Near:
    """For each experience the others whose state is nearest to its successor state, nearest first."""
    state, successor = compared_states(items, p)
    near = {}
    for i in items:
        others = sorted((j for j in items if j != i), key=lambda j: distance(successor[i], state[j]))
        near[i] = others[: p.k]
    return near


def numbers_of(seed: int, stream: Stream, turn: int, size: int) -> list[float]:
    """The random numbers of a stream at a consolidation."""
    start = mix_int(lane_key(seed, stream) + (turn + 1) * GOLDEN)
    return [unit(start, element) for element in range(size)]
