"""Promotions, demotions and evictions at the end of a consolidation."""

from __future__ import annotations

from collections.abc import Callable

from crystalrl.params import CrystalParams
from tests.reference_crystal.item import CRYSTAL, GLASS, LIQUID, Item, Items, f32


def risen(phase: str, c: float, p: CrystalParams) -> str:
    if not p.phases:
        return LIQUID
    if phase == LIQUID and c > f32(p.tau_L):
        phase = GLASS
    return CRYSTAL if phase == GLASS and c > f32(p.tau_C) else phase


def move(items: Items, capacity: int, p: CrystalParams) -> None:
    """Every experience to the phase of its c."""
    old = {s: e.phase for s, e in items.items()}
    for item in items.values() if p.phases else ():
        if item.phase == CRYSTAL and p.band_C is not None and item.c < f32(p.tau_C - p.band_C):
            item.phase = GLASS
        if item.phase == GLASS and item.c < f32(p.tau_L - p.band_L):
            item.phase = LIQUID
        item.phase = risen(item.phase, item.c, p)
    if p.overflow == "frozen":
        freeze(items, old, p.caps(capacity)[2])


def freeze(items: Items, old: dict[int, str], cap: int) -> None:
    """Promote while there is room, highest c first, the newer first among equals; the refused stay in glass."""
    settled = sum(old[s] == CRYSTAL and e.phase == CRYSTAL for s, e in items.items())
    coming = [e for s, e in items.items() if e.phase == CRYSTAL and old[s] != CRYSTAL]
    coming.sort(key=lambda e: (-e.c, -e.birth))
    for item in coming[max(cap - settled, 0) :]:
        item.phase = GLASS


def evict(items: Items, flagged: set[int], capacity: int, p: CrystalParams) -> None:
    """What is contradicted for too long, and what exceeds the room of its phase."""
    for slot, item in list(items.items()):
        item.streak = min(item.streak + 1, 255) if item.phase == CRYSTAL and slot in flagged else 0
        if p.tau_evict is not None and item.streak >= p.tau_evict and not item.pinned:
            del items[slot]
    liquid, glass, crystal = p.caps(capacity)
    trim(items, CRYSTAL, crystal, lambda e: -e.key)
    trim(items, GLASS, glass, lambda e: e.utility)
    trim(items, LIQUID, capacity if p.borrow else liquid, lambda e: e.utility)


def trim(items: Items, phase: str, room: int, worth: Callable[[Item], float]) -> None:
    """Evict the least useful, the older first among equals; never pinned ones."""
    members = [(s, e) for s, e in items.items() if e.phase == phase]
    members.sort(key=lambda m: (m[1].pinned, worth(m[1]), m[1].birth))
    for slot, item in members[: max(len(members) - room, 0)]:
        if not item.pinned:
            del items[slot]
