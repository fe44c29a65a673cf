"""A consolidation before it happens: copies of the ledger's columns that are rewritten, and the plan made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY
from crystalrl.memory.crystal.ledger import EVALUATED
from crystalrl.memory.crystal.novelty import Visits
from crystalrl.memory.neighbours.exact import total
from crystalrl.memory.neighbours.view import View
from crystalrl.memory.storage.arena import Arena

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

COLUMNS = ("c", "utility", "error", "suspicion", "key", "streak", "flags", "updated")
"""What a consolidation rewrites."""


class Draft:
    """The ledger of W ≤ N slots as a consolidation sees and rewrites it; every column [L, W] is a copy.

    Slots beyond W are empty in every lane: they cost nothing.
    """

    c: Tensor
    utility: Tensor
    error: Tensor
    suspicion: Tensor
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
        self.block = block = memory.block
        blocks = -(-ledger.reach.cpu() // block) if ledger.slots > block else torch.full((ledger.lanes,), ledger.slots)
        self.width = (blocks.clamp_min(1) * block).clamp_max(ledger.slots)
        """int64[L], on CPU: slots of each lane that count, whatever the others hold."""
        self.slots = int(self.width.max())
        for name in COLUMNS:
            setattr(self, name, getattr(ledger, name)[:, : self.slots].clone())
        self.birth = ledger.birth[:, : self.slots].clone()
        self.boost = ledger.boost[:, : self.slots].clone() if self.params.boost else None
        self.phase: Tensor = ledger.phase[:, : self.slots]
        self.generation = ledger.tree.claims[:, : self.slots, 0].clone()
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

    def view(self) -> View:
        """What the search for neighbours reads."""
        return View(
            arena=self._arena,
            phase=self.phase,
            birth=self.birth,
            unevaluated=self.fresh,
            due=self.lane,
            due_on_host=self.due,
            width=self.width,
            consolidations=self.turns,
            block=self.block,
        )

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
        return (total(values * self.occupied, self.block) / count).to(values.dtype)


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
