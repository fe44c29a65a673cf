"""Which experiences others contradict, and how interference spreads to the steps that lead there."""

from __future__ import annotations

import math

import numpy as np

from crystalrl.params import CrystalParams
from tests.reference_crystal.item import LIQUID, Item, Items, Near, compared_states, distance, spread

Apart = dict[int, dict[int, float]]
"""For each slot the distance of its state to each other state."""


def distances(items: Items, p: CrystalParams) -> Apart:
    state = compared_states(items, p)[0]
    return {i: {j: distance(state[i], state[j]) for j in items if j != i} for i in items}


def scales(items: Items, p: CrystalParams, apart: Apart) -> tuple[float, float]:
    """ε and δ_r."""
    epsilon, delta_r = p.epsilon, p.delta_r
    if epsilon is None:
        wanted = 1 if p.interference == "exists" else p.k
        gaps = [sorted(gaps_of(i, items, p, apart)) for i in items]
        far = sorted(each[wanted - 1] for each in gaps if len(each) >= wanted)
        epsilon = far[(len(far) - 1) // 2] if far else 0.0
        if p.interference == "exists":
            epsilon += 1e-6
    if delta_r is None:
        delta_r = float(spread(np.array([[e.data.reward] for e in items.values()], dtype=np.float64))[0])
    return epsilon, delta_r


def gaps_of(i: int, items: Items, p: CrystalParams, apart: Apart) -> list[float]:
    """Distances to the other experiences; except for `exists`, only among liquid ones of the same action and
    context."""
    mine = items[i]
    if p.interference == "exists":
        return [gap + action_gap(mine, items[j]) for j, gap in apart[i].items()]
    kind = (LIQUID, mine.data.action, mine.data.context)
    alike = [j for j in apart[i] if (items[j].phase, items[j].data.action, items[j].data.context) == kind]
    return [apart[i][j] for j in alike] if mine.phase == LIQUID else []


def action_gap(one: Item, other: Item) -> float:
    return math.sqrt(2) * (one.data.action != other.data.action)


def contradicted(items: Items, p: CrystalParams) -> set[int]:
    if p.interference == "none":
        return set()
    apart = distances(items, p)
    epsilon, delta_r = scales(items, p, apart)
    rule = {"exists": exists, "newer_majority": newer_majority, "fresh_mean": fresh_mean}[p.interference]
    flagged = set()
    for i, mine in items.items():
        if p.interference == "exists":
            alike = [items[j] for j, gap in apart[i].items() if gap + action_gap(mine, items[j]) < epsilon]
        else:
            alike = [items[j] for j, gap in apart[i].items() if gap <= epsilon and same_kind(mine, items[j])]
        if rule(mine, alike, delta_r):
            flagged.add(i)
    return flagged


def same_kind(one: Item, other: Item) -> bool:
    return other.data.action == one.data.action and other.data.context == one.data.context


def exists(mine: Item, alike: list[Item], delta_r: float) -> bool:
    return any(abs(mine.data.reward - other.data.reward) > delta_r for other in alike)


def newer_majority(mine: Item, alike: list[Item], delta_r: float) -> bool:
    later = sorted((e for e in alike if e.birth > mine.birth), key=lambda e: -e.birth)
    recent = later[: max(5, math.ceil(len(later) / 2))]
    newer = [abs(e.data.reward - mine.data.reward) > delta_r for e in recent]
    older = [abs(e.data.reward - mine.data.reward) > delta_r for e in alike if e.birth < mine.birth]
    outlier = sum(older) > len(older) / 2 and sum(older) >= 3
    return sum(newer) >= 2 and sum(newer) > len(newer) / 2 and not outlier


def fresh_mean(mine: Item, alike: list[Item], delta_r: float) -> bool:
    if mine.phase == LIQUID:
        return False
    since = min((e.birth for e in alike if e.phase == LIQUID), default=math.inf)
    fresh = [float(e.data.reward) for e in alike if e.birth >= since]
    older = [float(e.data.reward) for e in alike if e.birth < since] + [float(mine.data.reward)]
    if len(fresh) < 3 or all(e.evaluated for e in alike if e.birth >= since):
        return False
    against = sum(abs(reward - mine.data.reward) > delta_r for reward in fresh)
    if 5 * against < 3 * len(fresh):
        return False
    now, before = sum(fresh) / len(fresh), sum(older) / len(older)
    return abs(now - mine.data.reward) > delta_r and abs(now - before) > delta_r / 2


def back_up(items: Items, flagged: set[int], near: Near, p: CrystalParams) -> None:
    for slot, item in items.items():
        item.interference = max(float(slot in flagged), item.interference if p.warm else 0.0)
    for _ in range(p.sweeps if p.backup else 0):
        before = {s: e.interference for s, e in items.items()}
        for slot, item in items.items():
            around = [before[j] for j in near[slot][:5]]
            future = p.backup * sum(around) / len(around) if around and item.data.discount > 0 else 0.0
            item.interference = max(float(slot in flagged), future)
