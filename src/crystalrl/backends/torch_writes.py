"""Writes to slots in plain torch: the readable reference, used on CUDA without Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.backends.protocols import SlotColumns


def allocate(valid: Tensor, counter: Tensor, slots: int, queue: Tensor | None = None) -> Tensor:
    """See `Writes`."""
    rank = valid.cumsum(-1) - 1
    number = counter[:, None] + rank
    chosen = number % slots if queue is None else queue.gather(1, number.clamp(0, slots - 1)).to(torch.int64)
    counter += rank[:, -1] + 1
    return torch.where(valid, chosen, -1)


def store_rows(rows: Tensor, slots: Tensor, out: Tensor) -> None:
    """See `Writes`."""
    lanes, _, words = rows.shape
    stride = len(out) // lanes
    first = torch.arange(lanes, device=slots.device)[:, None] * stride
    out.index_copy_(0, (torch.where(slots >= 0, slots, stride - 1) + first).reshape(-1), rows.reshape(-1, words))


def magnitude(error: Tensor, slots: Tensor, capacity: int, corrupt: Tensor) -> Tensor:
    """See `Writes`."""
    magnitude = error.abs().to(torch.float32)
    corrupt |= ~(torch.isfinite(magnitude) & (slots >= 0) & (slots < capacity)).all()
    return magnitude


def strength(c: Tensor, flags: Tensor, slots: Tensor, kappa: Tensor, exponent: Tensor, evaluated: int) -> Tensor:
    """See `Writes`."""
    return pull(c.gather(1, slots), flags.gather(1, slots), kappa, exponent, evaluated)


def take(values: Tensor, slots: Tensor) -> Tensor:
    """See `Writes`."""
    lanes, held = values.shape[:2]
    at = slots if lanes == 1 else slots + torch.arange(lanes, device=slots.device)[:, None] * held
    return values.flatten(0, 1).index_select(0, at.reshape(-1)).view(*slots.shape, *values.shape[2:])


def pull(c: Tensor, flags: Tensor, kappa: Tensor, exponent: Tensor, evaluated: int) -> Tensor:
    """κ·c^p float32, 0 where the flag is missing; kappa and exponent float64[L, 1]."""
    return (kappa * c**exponent * ((flags & evaluated) > 0)).to(torch.float32)


def write_columns(columns: SlotColumns, slots: Tensor, label: Tensor, c: Tensor | None) -> Tensor:
    """Write columns and counts of new experiences with crystallization c float32[L, 1 or M] in slots int64[L, M].

    label uint8[L, N′]: the labels before. Returns the strata uint8[L, M] of the new experiences.
    """
    kept, spare = slots >= 0, columns.birth.shape[1] - 1
    at = torch.where(kept, slots, spare)
    state = torch.zeros_like(at, dtype=torch.float32) if c is None else c.expand(slots.shape).contiguous()
    for zeroed in (columns.floats, columns.bytes):
        zeroed.scatter_(2, at.expand(len(zeroed), *at.shape), 0)
    columns.floats[0].scatter_(1, at, state)
    columns.birth.scatter_(1, at, columns.number[:, None] + kept.cumsum(-1) - 1)
    columns.updated.scatter_(1, at, columns.clock[:, None].to(torch.int32).expand(at.shape).contiguous())
    if columns.env.numel():
        env = torch.arange(slots.shape[1], device=slots.device) // columns.n_step
        columns.env.scatter_(1, at, env.to(columns.env.dtype).expand(at.shape).contiguous())
    columns.number.add_(kept.sum(-1))
    strata = (state > columns.enter).sum(0).to(torch.uint8)
    changes = torch.stack([strata, label.gather(1, slots.clamp_min(0))], -1)[..., None]
    number = torch.arange(columns.filled.shape[1], device=slots.device)
    added, taken = ((changes == number) & kept[..., None, None]).sum(1).unbind(1)
    columns.filled.add_(added - taken)
    return strata
