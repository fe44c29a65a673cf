"""Batches: the payload of drawn slots, gathered and sent to the learner's device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.memory.storage.external import AnyArena
from crystalrl.types import Anchor, Batch


class Anchored(Protocol):
    """Network outputs stored for each experience."""

    def at(self, slots: Tensor) -> Mapping[str, Anchor]:
        """The anchors [L, B, …] of slots int64[L, B], by output name."""


def gather_batch(
    arena: AnyArena,
    slots: Tensor,
    weight: Tensor,
    *,
    to: torch.device,
    squeeze: bool,
    ticket: Tensor | None = None,
    anchors: Mapping[str, Anchor] | None = None,
) -> Batch:
    """The experiences in slots int64[L, B] with weights float32[L, B] and anchors [L, B, …], on the device `to`.

    The ticket int32[L, B] stays where it is: only `update` reads it. squeeze: drop the lane axis.
    """
    here = arena.device
    if to.type == here.type == "cpu":
        parts = arena.read_fields(slots, squeeze)
    else:
        rows = arena.read(slots)
        if to != here:
            rows, slots, weight = (_send(x, to) for x in (rows, slots, weight))
        parts = arena.unpack(rows[0] if squeeze else rows)
    if squeeze:
        slots, weight, ticket = slots.view(-1), weight.view(-1), None if ticket is None else ticket.view(-1)
    delivered = _delivered(anchors, here, to, squeeze)
    return Batch(**parts, weight=weight, index=slots, anchor=delivered, ticket=ticket)


def _delivered(
    anchors: Mapping[str, Anchor] | None, here: torch.device, to: torch.device, squeeze: bool
) -> dict[str, Anchor] | None:
    if not anchors:
        return None

    def delivered(x: Tensor) -> Tensor:
        x = _send(x, to) if to != here else x
        return x[0] if squeeze else x

    return {name: Anchor(delivered(each.target), delivered(each.coefficient)) for name, each in anchors.items()}


def _send(x: Tensor, to: torch.device) -> Tensor:
    return x.pin_memory().to(to, non_blocking=True) if to.type == "cuda" else x.to(to)
