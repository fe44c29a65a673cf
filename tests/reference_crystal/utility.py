"""The utility of an experience: its scaled error, the novelty of its state, the errors of where it leads."""

from __future__ import annotations

import math

import numpy as np

from crystalrl.backends.splitmix import mix_int
from crystalrl.params import CrystalParams
from crystalrl.random import Stream
from tests.reference import GOLDEN
from tests.reference_crystal.item import Item, Items, Near, compared_states, distance, f32, numbers_of, spread, vector


def scaled_errors(items: Items, p: CrystalParams) -> dict[int, float]:
    errors = {s: e.error for s, e in items.items()}
    if p.scale == "raw":
        return errors
    if p.scale == "q95":
        scale = float(np.quantile(list(errors.values()), 0.95))
        return {s: min(x / scale, 1.0) if scale > 0 else float(x > 0) for s, x in errors.items()}
    positive = [x for x in errors.values() if x > 0]
    scale = float(np.median(positive)) if positive else 0.0
    return {s: x / (x + scale) if x > 0 else 0.0 for s, x in errors.items()}


def pseudo_counts(items: Items, near: Near, p: CrystalParams) -> dict[int, float]:
    """1 + k·(median distance to the k-th nearest state)/(my distance to it), measured from the successor state."""
    state, successor = compared_states(items, p)
    far = {s: distance(successor[s], state[others[-1]]) for s, others in near.items() if others}
    typical = float(np.median(list(far.values()))) if far else 0.0
    counts = dict.fromkeys(items, 1.0)
    for slot, mine in far.items():
        ratio = typical / mine if mine > 0 else math.inf if typical > 0 else 1.0
        counts[slot] += len(near[slot]) * ratio
    return counts


def random_neighbours(items: Items, p: CrystalParams, capacity: int, seed: int, turn: int) -> Near:
    numbers = numbers_of(seed, Stream.NEIGHBOURS, turn, capacity * p.k)
    picks = [int(u * capacity) for u in numbers]
    return {s: [j for j in picks[s * p.k : (s + 1) * p.k] if j in items] for s in items}


class Grid:
    """Visits of the cells of a grid over the states, in a table that cells of the same hash share."""

    def __init__(self, capacity: int, p: CrystalParams) -> None:
        self.p = p
        self.entries = max(1024, 1 << (2 * capacity - 1).bit_length())
        self.clear()

    def clear(self) -> None:
        self.cells: dict[int, int] = {}
        self.scale: tuple[np.ndarray, np.ndarray] | None = None

    def visits(self, items: Items) -> dict[int, float]:
        """Visits of each experience's cell, including those of experiences that are new to this consolidation."""
        fresh = [e for e in items.values() if not e.evaluated]
        if self.scale is None and fresh:
            vectors = np.array([vector(e) for e in fresh], dtype=np.float64)
            self.scale = f32(vectors.mean(0)), f32(spread(vectors))
        for item in fresh:
            entry = self.entry(item)
            self.cells[entry] = self.cells.get(entry, 0) + 1
        return {s: self.cells[self.entry(e)] for s, e in items.items()}

    def useless(self) -> bool:
        """Whether counts look Poisson (variance ≤ 1.2 · mean, high counts clipped); decided from a thousand visits
        on."""
        entered = sum(self.cells.values())
        rain = entered / self.entries
        seen = np.array([min(n, rain + 3 * math.sqrt(rain) + 1) for n in self.cells.values()])
        mean = seen.sum() / self.entries
        return entered >= 1000 and bool((seen**2).sum() / self.entries - mean**2 <= 1.2 * mean)

    def entry(self, item: Item) -> int:
        """Entry of the table that the experience's cell shares with those whose hash agrees."""
        assert self.scale is not None
        centre, deviation = self.scale
        place = np.floor((f32(vector(item)) - centre) / deviation / f32(self.p.cell)).astype(int)
        extra = item.data.action if isinstance(item.data.action, int) else 0
        if item.data.context is not None and self.p.novelty != "state_action":
            extra += item.data.context << 20
        code = mix_int(extra + GOLDEN)
        for d, coordinate in enumerate(place):
            code = mix_int(code ^ ((int(coordinate) + GOLDEN * (d + 1)) % 2**64))
        return code % self.entries


def utility_of(item: Item, mine: float, downstream: float, visits: float, p: CrystalParams) -> float:
    utility = p.w1 * mine + p.w3 * downstream
    utility += p.w2 * math.exp(-visits / p.Z)
    utility /= max(1.0, p.w1 + p.w2 + p.w3)
    if p.boost:
        utility += item.boost
    return min(max(utility, 0.0), 1.0)
