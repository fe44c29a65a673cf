"""Phase-aware draws (Algorithm 2): how many of each phase, and which."""

from __future__ import annotations

import math

from crystalrl.params import CrystalParams
from tests.reference_crystal.item import CRYSTAL, GLASS, LIQUID, ORDER, Item, Items, f32

TINY = 1e-6


def base_weight(error: float, p: CrystalParams) -> float:
    return float(f32((error + TINY) ** p.nu))


def draw_weight(item: Item) -> float:
    if item.phase == CRYSTAL:
        value = item.c
    elif item.phase == GLASS:
        value = item.base * math.sqrt(item.c)
    else:
        value = item.base
    return float(f32(max(value, TINY)))


def quota(items: Items, p: CrystalParams, size: int) -> dict[str, int]:
    held = {phase: sum(e.phase == phase for e in items.values()) for phase in ORDER}
    present = [phase for phase in ORDER if held[phase]]
    shares = dict(zip(ORDER, p.batch, strict=True))
    if p.split == "floor":
        return rounded_down(shares, present, size)
    if sum(shares[phase] for phase in present) == 0:
        shares = dict.fromkeys(ORDER, 1.0)
    whole = sum(shares[phase] for phase in present)
    exact = {phase: shares[phase] / whole * size if phase in present else 0.0 for phase in ORDER}
    if p.draws_per_experience is not None:
        exact = bounded(exact, {phase: p.draws_per_experience * held[phase] for phase in ORDER}, size)
    places = {phase: math.floor(value + 1e-9) for phase, value in exact.items()}
    by_remainder = sorted(ORDER, key=lambda phase: (round(places[phase] - exact[phase], 9), ORDER.index(phase)))
    for phase in by_remainder[: size - sum(places.values())]:
        places[phase] += 1
    return places


def rounded_down(shares: dict[str, float], present: list[str], size: int) -> dict[str, int]:
    """⌊share⌋ of glass, ⌈share⌉ of crystal, the rest to the first phase that is present."""
    places = {GLASS: math.floor(shares[GLASS] * size + 1e-9), CRYSTAL: math.ceil(shares[CRYSTAL] * size - 1e-9)}
    places = {phase: places.get(phase, 0) if phase in present else 0 for phase in (LIQUID, GLASS, CRYSTAL)}
    places[present[0]] += size - sum(places.values())
    return places


def bounded(exact: dict[str, float], bound: dict[str, float], size: int) -> dict[str, float]:
    """Give what exceeds a bound to entries below theirs, one after the other; scale all up if that is not enough."""
    done: set[str] = set()
    while over := [phase for phase in exact if phase not in done and exact[phase] > bound[phase]]:
        excess = sum(exact[phase] - bound[phase] for phase in over)
        done.update(over)
        free = {phase: exact[phase] for phase in exact if exact[phase] < bound[phase]}
        exact = exact | {phase: bound[phase] for phase in over}
        for phase, share in free.items():
            exact[phase] += excess * share / sum(free.values()) if sum(free.values()) else 0.0
    return {phase: value * size / sum(exact.values()) for phase, value in exact.items()}


def draw(items: Items, p: CrystalParams, numbers: list[float], time: int) -> tuple[list[int], list[float]]:
    """Slots, and the factor of each in the loss."""
    size, places = len(numbers), quota(items, p, len(numbers))
    exponent = p.is_exponent
    if p.is_steps is not None:
        exponent += (1 - exponent) * min(1.0, time / p.is_steps)
    members = {phase: [s for s in sorted(items) if items[s].phase == phase] for phase in ORDER}
    weights = {phase: [draw_weight(items[s]) for s in members[phase]] for phase in ORDER}
    strata = [phase for phase in ORDER for _ in range(places[phase])]
    slots, importance = [], []
    for u, phase in zip(numbers, strata, strict=True):
        whole = len(items) * places[phase] / size if p.importance == "memory" else len(members[phase])
        at, total = picked(u, weights[phase])
        slots.append(members[phase][at])
        importance.append((whole * weights[phase][at] / total) ** -exponent)
    gate = [max((1 - items[s].held) ** p.gate, p.w_min) for s in slots]
    return slots, [w / max(importance) * g for w, g in zip(importance, gate, strict=True)]


def picked(u: float, weights: list[float]) -> tuple[int, float]:
    """Where the running sum of the weights passes the share u of their total, and the total."""
    total, passed, at = math.fsum(weights), weights[0], 0
    while u * total >= passed:
        at += 1
        passed += weights[at]
    return at, total
