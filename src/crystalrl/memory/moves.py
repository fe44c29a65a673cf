"""Moves between the phases after c has changed, and what makes room when a phase is too full."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.dynamics import CRYSTAL, EMPTY, GLASS, LIQUID, next_phase
from crystalrl.memory.crystal_ledger import EVALUATED, PINNED, CrystalLedger


@dataclass
class Moves:
    """The phases uint8[L, N] while they change, and how many [L] moved for which reason."""

    phase: Tensor
    counts: dict[str, Tensor]

    def evict(self, reason: str, mask: Tensor) -> None:
        self.counts[reason] = mask.sum(-1)
        self.phase = torch.where(mask, EMPTY, self.phase).to(torch.uint8)


def move(ledger: CrystalLedger, flagged: Tensor, keys: Tensor, lane: Tensor) -> Moves:
    """New phases of all slots in the lanes bool[L, 1] that are due; writes streaks and keys of the ledger.

    flagged bool[L, N]: contradicted; keys float32[L, N]: random keys for new crystals. Demotions come first, then
    promotions, over several levels at once; then the counters of crystals under interference; then capacity, crystal
    first. Algorithm 1's own order differs in nothing else but that it knows no way back from crystal.
    """
    old = ledger.phase
    none = torch.zeros(ledger.lanes, dtype=torch.int64, device=old.device)
    moves = Moves(old, {"refused": none, "streak_evicted": none})
    if ledger.params.phases:
        moves.phase = torch.where(lane, next_phase(old, ledger.c, ledger.enter, ledger.leave), old)
    if ledger.params.overflow == "frozen":
        _refuse_beyond_room(ledger, old, moves)
    new = (old != CRYSTAL) | ((ledger.flags & EVALUATED) == 0)
    promoted = (moves.phase == CRYSTAL) & new & lane
    ledger.key.copy_(torch.where(promoted, keys, ledger.key))
    _count_moves(old, moves)
    _evict_contradicted(ledger, flagged, moves, lane)
    pinned = (ledger.flags & PINNED) > 0
    liquid, glass, crystal = ledger.caps
    utility = ledger.utility.to(torch.float64)
    full = (
        ("crystal_dropped", CRYSTAL, -ledger.key.to(torch.float64), crystal),
        ("glass_evicted", GLASS, utility, glass),
        ("liquid_evicted", LIQUID, utility, liquid),
    )
    for reason, phase, worth, room in full:
        members = (moves.phase == phase) & lane
        moves.evict(reason, members & ~pinned & (_rank(members, pinned, worth, ledger.birth) >= room))
    return moves


def _rank(members: Tensor, first: Tensor, worth: Tensor, birth: Tensor) -> Tensor:
    """Place int64[L, N] of each member, from 0, by falling worth, the newer first among equals; `first` before all."""
    value = torch.where(first, torch.inf, worth).masked_fill(~members, -torch.inf)
    by_age = birth.argsort(dim=1, descending=True, stable=True)
    order = by_age.gather(1, value.gather(1, by_age).argsort(dim=1, descending=True, stable=True))
    places = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places.contiguous())


def _refuse_beyond_room(ledger: CrystalLedger, old: Tensor, moves: Moves) -> None:
    """A frozen store takes newcomers while there is room, highest c first; the refused stay glass."""
    coming = (moves.phase == CRYSTAL) & (old != CRYSTAL)
    room = ledger.caps[2] - ((old == CRYSTAL) & (moves.phase == CRYSTAL)).sum(-1, keepdim=True)
    rank = _rank(coming, torch.zeros_like(coming), ledger.c.to(torch.float64), ledger.birth)
    refused = coming & (rank >= room)
    moves.counts["refused"] = refused.sum(-1)
    moves.phase = torch.where(refused, GLASS, moves.phase).to(torch.uint8)


def _count_moves(old: Tensor, moves: Moves) -> None:
    new = moves.phase
    moves.counts["to_glass"] = ((old == LIQUID) & (new > LIQUID)).sum(-1)
    moves.counts["to_crystal"] = ((old < CRYSTAL) & (new == CRYSTAL)).sum(-1)
    moves.counts["melted"] = ((old == CRYSTAL) & (new < CRYSTAL)).sum(-1)
    moves.counts["to_liquid"] = ((old > LIQUID) & (new == LIQUID)).sum(-1)


def _evict_contradicted(ledger: CrystalLedger, flagged: Tensor, moves: Moves, lane: Tensor) -> None:
    """Count consolidations in a row under interference, saturating at 255; evict crystals at τ_evict."""
    crystal = moves.phase == CRYSTAL
    counted = torch.where(crystal & flagged, ledger.streak.clamp_max(254) + 1, 0).to(torch.uint8)
    ledger.streak.copy_(torch.where(lane, counted, ledger.streak))
    limit = ledger.params.tau_evict
    if limit is not None:
        pinned = (ledger.flags & PINNED) > 0
        moves.evict("streak_evicted", crystal & lane & ~pinned & (ledger.streak >= limit))
