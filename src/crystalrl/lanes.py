"""Values per lane, and elementwise functions that give a lane the same bits alone and among other lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

PerLane = float | Sequence[float]
"""One number for all lanes, or one number per lane."""
WHOLE = 64
"""Lanes are padded to a multiple of this many elements, so that no SIMD remainder is left."""


def lane_values(value: PerLane) -> Sequence[float]:
    """The numbers themselves: one, or one per lane."""
    return value if isinstance(value, Sequence) else (value,)


def per_lane(name: str, value: PerLane, lanes: int, device: torch.device, dtype: torch.dtype = torch.float64) -> Tensor:
    """[L, 1] from one number for all lanes, or from one number per lane."""
    column = torch.as_tensor(value, dtype=dtype, device=device).reshape(-1, 1)
    if column.shape[0] not in (1, lanes):
        raise ValueError(f"{name}: wanted one number, or {lanes} (one per lane), got {column.shape[0]}")
    return column.expand(lanes, 1).contiguous()


def lanewise(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """An elementwise function of x [L, …]; a lane gets the same bits alone and among other lanes.

    On CPU, whole SIMD vectors and the remainder are computed by different code, which may round differently. So each
    lane is padded to whole vectors.
    """
    flat = x.flatten(1)
    short = -flat.shape[1] % WHOLE
    if not short or x.device.type != "cpu":
        return function(x.contiguous())
    return function(pad(flat, (0, short)))[:, : flat.shape[1]].view_as(x)
