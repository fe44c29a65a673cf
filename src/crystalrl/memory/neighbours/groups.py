"""Lanes that are filled unevenly: each is looked at in its own width, so that it sees what it would see alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.neighbours.exact import Near
from crystalrl.memory.neighbours.neighbourhood import Surroundings, exact

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory


def all_pairs(memory: CrystalMemory, draft: Draft, lanes: Tensor) -> Surroundings:
    """Surroundings of the lanes bool[L] (on CPU) from all pairs; widths that differ are looked at one after another."""
    around: Surroundings | None = None
    for width in draft.width[lanes].unique().tolist():
        mine = lanes & (draft.width == width)
        if width == draft.slots and bool(mine.all()):
            return exact(memory, draft)
        part = _wide(exact(memory, draft.of(mine, width)), draft.slots)
        around = part if around is None else joined(around, part, mine)
    assert around is not None
    return around


def joined(one: Surroundings, other: Surroundings, lanes: Tensor) -> Surroundings:
    """The other's in the lanes bool[L] (on CPU), elsewhere the one's."""
    flat = lanes.to(one.flagged.device)[:, None]
    near = one.near
    if near is not None and other.near is not None:
        index = torch.where(flat[..., None], other.near.index, near.index)
        near = Near(index, torch.where(flat[..., None], other.near.exists, near.exists))
    pairs = ((one.flagged, other.flagged), (one.epsilon, other.epsilon), (one.delta_r, other.delta_r))
    return Surroundings(near, *(torch.where(flat, second, first) for first, second in pairs))


def _wide(around: Surroundings, slots: int) -> Surroundings:
    """The same over so many slots; those beyond see and are nothing."""
    more = slots - around.flagged.shape[1]
    near = around.near
    if near is not None:
        index, exists = (torch.nn.functional.pad(x, (0, 0, 0, more)) for x in (near.index, near.exists))
        near = Near(index, exists)
    flagged = torch.nn.functional.pad(around.flagged, (0, more))
    return Surroundings(near, flagged, around.epsilon, around.delta_r)
