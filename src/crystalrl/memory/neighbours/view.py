"""What the search for neighbours reads: the stored experiences as a consolidation sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY
from crystalrl.memory.neighbours.exact import BLOCK
from crystalrl.memory.storage.external import AnyArena


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """The first W ≤ N slots of every lane. Slots beyond W are empty in every lane."""

    arena: AnyArena
    """Where the payload is read from."""
    phase: Tensor
    """uint8[L, W]: phase of each slot."""
    birth: Tensor
    """int64[L, W]: arrival number of the experience in its lane."""
    unevaluated: Tensor
    """bool[L, W]: experiences of the lanes that are due that no consolidation has evaluated yet."""
    due: Tensor
    """bool[L, 1], on the device: the lanes that are consolidated."""
    due_on_host: Tensor
    """bool[L], on CPU: the lanes that are consolidated."""
    width: Tensor
    """int64[L], on CPU: slots in use of each lane, independent of the other lanes."""
    consolidations: Tensor
    """int64[L]: consolidations of each lane so far."""
    block: int = BLOCK
    """Widths are multiples of this, and sums run over blocks of this size; see `exact.total`."""

    @property
    def slots(self) -> int:
        """W, the number of slots in view."""
        return self.phase.shape[1]

    @cached_property
    def occupied(self) -> Tensor:
        """bool[L, W]: slots that hold an experience."""
        return self.phase != EMPTY

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The payload [L, W, …] by role; see `Arena.unpack`."""
        return self.arena.fields(self.slots)

    def part(self, lanes: Tensor, slots: int) -> View:
        """The first `slots` slots, as if the lanes outside bool[L] (on CPU) were empty and not due."""
        mine = lanes.to(self.phase.device)[:, None]
        return View(
            arena=self.arena,
            phase=self.phase[:, :slots] * mine,
            birth=self.birth[:, :slots],
            unevaluated=self.unevaluated[:, :slots] & mine,
            due=self.due & mine,
            due_on_host=self.due_on_host & lanes,
            width=self.width,
            consolidations=self.consolidations,
            block=self.block,
        )


def padded(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Slots int64[L, M] where the mask [L, N] holds, in order, and bool[L, M]: which of them are real, since lanes
    may have fewer than M."""
    lane, slot = mask.nonzero(as_tuple=True)
    count = mask.sum(-1)
    first = count.cumsum(0) - count
    rank = torch.arange(len(slot), device=slot.device) - first[lane]
    slots = torch.zeros(len(mask), int(count.max()), dtype=torch.int64, device=slot.device)
    slots[lane, rank] = slot
    return slots, torch.arange(slots.shape[1], device=slot.device) < count[:, None]
