"""The input of `update`, checked: a batch with its ticket, or plain slots."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.memory.storage.pack import unmasked
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.types import ArrayLike, Batch

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def checked_update(
    spec: StorageSpec, device: torch.device, drawn: Batch | ArrayLike, td_error: ArrayLike
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Slots int64[L, B], errors [L, B] and ticket int32[L, B] (None: plain slots) on the memory's device."""
    index, ticket = (drawn.index, drawn.ticket) if isinstance(drawn, Batch) else (drawn, None)
    slots = torch.as_tensor(unmasked("index", index), device=device)
    error = torch.as_tensor(unmasked("td_error", td_error), device=device)
    error = error.detach() if error.requires_grad else error
    _refuse_shapes(spec, slots, error, ticket)
    if slots.dtype not in INTEGERS or not error.is_floating_point():
        raise TypeError(f"update: wanted an integer index and float td_error, got {slots.dtype} and {error.dtype}")
    slots = slots if slots.dtype == torch.int64 else slots.to(torch.int64)
    ticket = ticket if ticket is None or ticket.device == device else ticket.to(device)
    if spec.lanes is not None:
        return slots, error, ticket
    return slots[None], error[None], None if ticket is None else ticket[None]


def _refuse_shapes(spec: StorageSpec, slots: Tensor, error: Tensor, ticket: Tensor | None) -> None:
    dims = 1 if spec.lanes is None else 2
    if slots.dim() != dims or (dims == 2 and slots.shape[0] != spec.lanes) or error.shape != slots.shape:
        wanted = "[B]" if dims == 1 else f"[{spec.lanes}, B]"
        got = f"{tuple(slots.shape)} and {tuple(error.shape)}"
        raise ValueError(f"update: wanted index and td_error of the same shape {wanted}, got {got}")
    if ticket is not None and ticket.shape != slots.shape:
        raise ValueError(f"ticket: wanted the shape {tuple(slots.shape)} of the index, got {tuple(ticket.shape)}")
