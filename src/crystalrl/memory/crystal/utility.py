"""Utility U = w₁·δ̂ + w₂·N + w₃·V (eq. utility), in [0, 1] by construction."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def masked_quantile(values: Tensor, mask: Tensor, q: float) -> Tensor:
    """float32[L, 1]: quantile of the masked values [L, N] of each lane, linearly interpolated; 0 if there is none."""
    ordered = values.masked_fill(~mask, torch.inf).sort(-1).values
    place = q * (mask.sum(-1, keepdim=True).to(torch.float64) - 1).clamp_min(0)
    low = place.floor().to(torch.int64)
    high = place.ceil().to(torch.int64)
    below, above = ordered.gather(1, low), ordered.gather(1, high)
    value = below + (above - below).nan_to_num(0.0) * (place - low).to(values.dtype)
    return torch.where(mask.any(-1, keepdim=True), value, 0.0)


def scaled_error(error: Tensor, occupied: Tensor, how: Literal["median", "q95"]) -> tuple[Tensor, Tensor]:
    """δ̂ in [0, 1] of |δ| [L, N], and the share [L] of the occupied that was clipped to get there.

    median: |δ|/(|δ| + median of the positive ones), free of scale, nothing clipped. q95: |δ|/95th percentile, clipped.
    0/0 counts as 0.
    """
    count = occupied.sum(-1).clamp_min(1)
    if how == "median":
        scale = masked_quantile(error, occupied & (error > 0), 0.5)
        whole = error + scale
        return torch.where(whole > 0, error / whole.clamp_min(1e-38), 0.0), torch.zeros_like(count, dtype=torch.float32)
    scale = masked_quantile(error, occupied, 0.95)
    ratio = torch.where(error > 0, error / scale.clamp_min(1e-38), 0.0)
    clipped = ((ratio > 1) & occupied).sum(-1) / count
    return ratio.clamp(0, 1), clipped
