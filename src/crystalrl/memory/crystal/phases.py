"""Moves between the phases after c has changed, and evictions where a phase exceeds its capacity."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.dynamics import CRYSTAL, EMPTY, GLASS, LIQUID, next_phase
from crystalrl.memory.crystal.ledger import EVALUATED, PINNED
from crystalrl.memory.crystal.snapshot import Columns, Snapshot


@dataclass
class Moves:
    """Phases uint8[L, W], keys and streaks while they change, and the number [L] of moves by reason."""

    phase: Tensor
    key: Tensor
    streak: Tensor
    counts: dict[str, Tensor]

    def evict(self, reason: str, mask: Tensor) -> None:
        self.counts[reason] = mask.sum(-1)
        self.phase = torch.where(mask, EMPTY, self.phase).to(torch.uint8)


def move(snapshot: Snapshot, columns: Columns, flagged: Tensor, keys: Tensor) -> Moves:
    """New phases, keys and streaks of all slots in the lanes that are due.

    columns: with the new c and utility; flagged bool[L, W]: contradicted; keys float32[L, W]: random keys for new
    crystals. Demotions come first, then promotions, over several levels at once; then the streaks of contradicted
    crystals; then capacity, crystal first. Algorithm 1 has no way back from crystal, and bounds only liquid.
    """
    old, due, params = snapshot.phase, snapshot.due, snapshot.shared.params
    none = torch.zeros(len(old), dtype=torch.int64, device=old.device)
    moves = Moves(old, columns.key, columns.streak, {"refused": none, "streak_evicted": none})
    if params.phases:
        moves.phase = torch.where(due, next_phase(old, columns.c, snapshot.enter, snapshot.leave), old)
    if params.overflow == "frozen":
        _refuse_beyond_room(snapshot, columns.c, moves)
    new = (old != CRYSTAL) | ((columns.flags & EVALUATED) == 0)
    promoted = (moves.phase == CRYSTAL) & new & due
    moves.key = torch.where(promoted, keys, columns.key)
    _count_moves(old, moves)
    pinned = (columns.flags & PINNED) > 0
    _evict_contradicted(snapshot, flagged, pinned, moves)
    _evict_beyond_capacity(snapshot, columns.utility.to(torch.float64), pinned, moves)
    return moves


def _evict_beyond_capacity(snapshot: Snapshot, utility: Tensor, pinned: Tensor, moves: Moves) -> None:
    liquid, glass, crystal = snapshot.caps
    if snapshot.shared.params.borrow:
        liquid = snapshot.shared.capacity  # all slots that glass and crystal leave empty
    limits = (
        ("crystal_dropped", CRYSTAL, -moves.key.to(torch.float64), crystal),
        ("glass_evicted", GLASS, utility, glass),
        ("liquid_evicted", LIQUID, utility, liquid),
    )
    by_age = _by_age(snapshot.birth)
    for reason, phase, worth, room in limits:
        members = (moves.phase == phase) & snapshot.due
        moves.evict(reason, members & ~pinned & (_rank(members, pinned, worth, by_age) >= room))


def _by_age(birth: Tensor) -> Tensor:
    """Slots int64[L, W], the newest first."""
    return birth.argsort(dim=1, descending=True, stable=True)


def _rank(members: Tensor, first: Tensor, worth: Tensor, by_age: Tensor) -> Tensor:
    """Rank int64[L, W] of each member, from 0: those marked `first`, then by decreasing worth, newer before older."""
    value = torch.where(first, torch.inf, worth).masked_fill(~members, -torch.inf)
    order = by_age.gather(1, value.gather(1, by_age).argsort(dim=1, descending=True, stable=True))
    places = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places.contiguous())


def _refuse_beyond_room(snapshot: Snapshot, c: Tensor, moves: Moves) -> None:
    """A frozen crystal store admits new crystals while there is room, highest c first; the others stay glass."""
    old = snapshot.phase
    coming = (moves.phase == CRYSTAL) & (old != CRYSTAL)
    room = snapshot.caps[2] - ((old == CRYSTAL) & (moves.phase == CRYSTAL)).sum(-1, keepdim=True)
    rank = _rank(coming, torch.zeros_like(coming), c.to(torch.float64), _by_age(snapshot.birth))
    refused = coming & (rank >= room)
    moves.counts["refused"] = refused.sum(-1)
    moves.phase = torch.where(refused, GLASS, moves.phase).to(torch.uint8)


def _count_moves(old: Tensor, moves: Moves) -> None:
    new = moves.phase
    moves.counts["to_glass"] = ((old == LIQUID) & (new > LIQUID)).sum(-1)
    moves.counts["to_crystal"] = ((old < CRYSTAL) & (new == CRYSTAL)).sum(-1)
    moves.counts["melted"] = ((old == CRYSTAL) & (new < CRYSTAL)).sum(-1)
    moves.counts["to_liquid"] = ((old > LIQUID) & (new == LIQUID)).sum(-1)


def _evict_contradicted(snapshot: Snapshot, flagged: Tensor, pinned: Tensor, moves: Moves) -> None:
    """Count consecutive consolidations under contradiction, saturating at 255; evict crystals at τ_evict."""
    crystal, due = moves.phase == CRYSTAL, snapshot.due
    counted = torch.where(crystal & flagged, moves.streak.clamp_max(254) + 1, 0).to(torch.uint8)
    moves.streak = torch.where(due, counted, moves.streak)
    limit = snapshot.shared.params.tau_evict
    if limit is not None:
        moves.evict("streak_evicted", crystal & due & ~pinned & (moves.streak >= limit))
