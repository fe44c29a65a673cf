"""Moves between the phases after c has changed, and what makes room when a phase is too full."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.dynamics import CRYSTAL, EMPTY, GLASS, LIQUID, next_phase
from crystalrl.memory.crystal.ledger import EVALUATED, PINNED
from crystalrl.memory.crystal.snapshot import Draft


@dataclass
class Moves:
    """The phases uint8[L, N] while they change, and how many [L] moved for which reason."""

    phase: Tensor
    counts: dict[str, Tensor]

    def evict(self, reason: str, mask: Tensor) -> None:
        self.counts[reason] = mask.sum(-1)
        self.phase = torch.where(mask, EMPTY, self.phase).to(torch.uint8)


def move(draft: Draft, flagged: Tensor, keys: Tensor) -> Moves:
    """New phases of all slots in the lanes that are due; drafts streaks and keys.

    flagged bool[L, N]: contradicted; keys float32[L, N]: random keys for new crystals. Demotions come first, then
    promotions, over several levels at once; then the counters of crystals under interference; then capacity, crystal
    first. Algorithm 1's own order differs in nothing else but that it knows no way back from crystal.
    """
    old, lane = draft.phase, draft.lane
    none = torch.zeros(draft.lanes, dtype=torch.int64, device=old.device)
    moves = Moves(old, {"refused": none, "streak_evicted": none})
    if draft.params.phases:
        moves.phase = torch.where(lane, next_phase(old, draft.c, draft.enter, draft.leave), old)
    if draft.params.overflow == "frozen":
        _refuse_beyond_room(draft, old, moves)
    new = (old != CRYSTAL) | ((draft.flags & EVALUATED) == 0)
    promoted = (moves.phase == CRYSTAL) & new & lane
    draft.key = torch.where(promoted, keys, draft.key)
    _count_moves(old, moves)
    _evict_contradicted(draft, flagged, moves)
    pinned = (draft.flags & PINNED) > 0
    liquid, glass, crystal = draft.caps
    utility = draft.utility.to(torch.float64)
    full = (
        ("crystal_dropped", CRYSTAL, -draft.key.to(torch.float64), crystal),
        ("glass_evicted", GLASS, utility, glass),
        ("liquid_evicted", LIQUID, utility, liquid),
    )
    by_age = _by_age(draft.birth)
    for reason, phase, worth, room in full:
        members = (moves.phase == phase) & lane
        moves.evict(reason, members & ~pinned & (_rank(members, pinned, worth, by_age) >= room))
    return moves


def _by_age(birth: Tensor) -> Tensor:
    """Slots int64[L, N], the newest first."""
    return birth.argsort(dim=1, descending=True, stable=True)


def _rank(members: Tensor, first: Tensor, worth: Tensor, by_age: Tensor) -> Tensor:
    """Place int64[L, N] of each member, from 0, by falling worth, the newer first among equals; `first` before all."""
    value = torch.where(first, torch.inf, worth).masked_fill(~members, -torch.inf)
    order = by_age.gather(1, value.gather(1, by_age).argsort(dim=1, descending=True, stable=True))
    places = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places.contiguous())


def _refuse_beyond_room(draft: Draft, old: Tensor, moves: Moves) -> None:
    """A frozen store takes newcomers while there is room, highest c first; the refused stay glass."""
    coming = (moves.phase == CRYSTAL) & (old != CRYSTAL)
    room = draft.caps[2] - ((old == CRYSTAL) & (moves.phase == CRYSTAL)).sum(-1, keepdim=True)
    rank = _rank(coming, torch.zeros_like(coming), draft.c.to(torch.float64), _by_age(draft.birth))
    refused = coming & (rank >= room)
    moves.counts["refused"] = refused.sum(-1)
    moves.phase = torch.where(refused, GLASS, moves.phase).to(torch.uint8)


def _count_moves(old: Tensor, moves: Moves) -> None:
    new = moves.phase
    moves.counts["to_glass"] = ((old == LIQUID) & (new > LIQUID)).sum(-1)
    moves.counts["to_crystal"] = ((old < CRYSTAL) & (new == CRYSTAL)).sum(-1)
    moves.counts["melted"] = ((old == CRYSTAL) & (new < CRYSTAL)).sum(-1)
    moves.counts["to_liquid"] = ((old > LIQUID) & (new == LIQUID)).sum(-1)


def _evict_contradicted(draft: Draft, flagged: Tensor, moves: Moves) -> None:
    """Count consolidations in a row under interference, saturating at 255; evict crystals at τ_evict."""
    crystal = moves.phase == CRYSTAL
    counted = torch.where(crystal & flagged, draft.streak.clamp_max(254) + 1, 0).to(torch.uint8)
    draft.streak = torch.where(draft.lane, counted, draft.streak)
    limit = draft.params.tau_evict
    if limit is not None:
        pinned = (draft.flags & PINNED) > 0
        moves.evict("streak_evicted", crystal & draft.lane & ~pinned & (draft.streak >= limit))
