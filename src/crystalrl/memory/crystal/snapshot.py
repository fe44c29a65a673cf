"""A consolidation before it happens: copies of the ledger's columns that are rewritten, and the plan made of them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY
from crystalrl.memory.crystal.ledger import EVALUATED
from crystalrl.memory.crystal.novelty import Visits
from crystalrl.memory.neighbours.exact import BLOCK, total
from crystalrl.memory.storage.arena import Arena

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

COLUMNS = ("c", "utility", "error", "interference", "key", "streak", "flags", "updated")
"""What a consolidation rewrites."""
WHOLE = BLOCK
"""Up to so many slots all are looked at; of more, the blocks up to the last that is occupied."""


class Draft:
    """The ledger of W ≤ N slots as a consolidation sees and rewrites it; every column [L, W] is a copy.

    Slots beyond W are empty in every lane: they cost nothing.
    """

    c: Tensor
    utility: Tensor
    error: Tensor
    interference: Tensor
    key: Tensor
    streak: Tensor
    flags: Tensor
    updated: Tensor

    def __init__(self, memory: CrystalMemory, lane: Tensor, steps: Tensor) -> None:
        ledger = memory.ledger
        self.params, self.lanes, self.caps = ledger.params, ledger.lanes, ledger.caps
        self.enter, self.leave, self.lane = ledger.enter, ledger.leave, lane
        self.due = lane[:, 0].cpu()
        """bool[L], on CPU: the lanes that are consolidated."""
        blocks = -(-ledger.reach.cpu() // BLOCK) if ledger.slots > WHOLE else torch.full((ledger.lanes,), ledger.slots)
        self.width = (blocks.clamp_min(1) * BLOCK).clamp_max(ledger.slots)
        """int64[L], on CPU: slots of each lane that count, whatever the others hold."""
        self.slots = int(self.width.max())
        for name in COLUMNS:
            setattr(self, name, getattr(ledger, name)[:, : self.slots].clone())
        self.birth = ledger.birth[:, : self.slots].clone()
        self.boost = ledger.boost[:, : self.slots].clone() if self.params.boost else None
        self.phase: Tensor = ledger.phase[:, : self.slots]
        self.generation = ledger.generation[:, : self.slots].clone()
        self.time, self.turns = memory.time.clone(), memory.turns.clone()
        self.ended, self.steps = memory.ended.clone(), steps
        self.read_from(memory.arena)
        self.occupied: Tensor = self.phase != EMPTY
        self.chosen = self._chosen()
        """Whose c is moved in this call."""
        self.fresh = self.chosen & ((self.flags & EVALUATED) == 0)

    def read_from(self, arena: Arena) -> None:
        """Where the payload is read: views, not copies."""
        self._arena = arena
        self.fields: Mapping[str, Any] = arena.unpack(arena.rows[:, : self.slots])

    def of(self, lanes: Tensor, slots: int) -> Self:
        """The first so many slots, to look at: as if the lanes outside bool[L] (on CPU) were empty and not due."""
        part, mine = copy(self), lanes.to(self.phase.device)[:, None]
        part.slots, part.lane, part.due = slots, self.lane & mine, self.due & lanes
        part.phase = self.phase[:, :slots] * mine
        part.occupied, part.fresh = self.occupied[:, :slots] & mine, self.fresh[:, :slots] & mine
        part.birth = self.birth[:, :slots]
        part.read_from(self._arena)
        return part

    def _chosen(self) -> Tensor:
        chosen: Tensor = self.occupied & self.lane
        if self.params.slices > 1:
            turn = self.turns[:, None] % self.params.slices
            mine = torch.arange(self.slots, device=chosen.device) % self.params.slices == turn
            chosen &= mine | ((self.flags & EVALUATED) == 0)
        return chosen

    def mean_over_occupied(self, values: Tensor) -> Tensor:
        """[L, 1]."""
        count = self.occupied.sum(-1, keepdim=True).clamp_min(1)
        return (total(values * self.occupied) / count).to(values.dtype)


@dataclass(frozen=True)
class Plan:
    """What a consolidation will do. `CrystalMemory.apply` does it, but for slots rewritten in the meantime."""

    draft: Draft
    """The columns as they will be."""
    phase: Tensor
    """uint8[L, W]: the phases as they will be."""
    anchors: Mapping[str, Tensor]
    visits: Visits
    values: Mapping[str, Tensor]
    """For the report, [L] each."""
    seconds: Mapping[str, float]
    notes: tuple[str, ...] = ()
    """For the report, in words."""


def padded(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Slots int64[L, M] where the mask [L, N] holds, in order, and which of them are real (lanes have fewer than M)."""
    lane, slot = mask.nonzero(as_tuple=True)
    count = mask.sum(-1)
    first = count.cumsum(0) - count
    rank = torch.arange(len(slot), device=slot.device) - first[lane]
    slots = torch.zeros(len(mask), int(count.max()), dtype=torch.int64, device=slot.device)
    slots[lane, rank] = slot
    return slots, torch.arange(slots.shape[1], device=slot.device) < count[:, None]
