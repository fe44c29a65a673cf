"""Large products on CPU through oneDNN, lane by lane. torch itself uses MKL for float32, which leaves AVX-512 unused on
some processors: there a product of 256 × 256 × 256 takes half the time here.

A lane is one product of its own, so it gets the same bits alone and among others. `torch.baddbmm` is the readable twin.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SMALLEST = 1 << 22
"""Multiplications in one lane above which oneDNN is worth its call: measured with 1, 2 and 16 lanes."""

_product: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether `linear` is available and faster than torch for x [L, B, in] and weight [L, in, out]. Decided for one
    lane, whatever the number of lanes."""
    if _product is None or x.device.type != "cpu" or not x.dtype == weight.dtype == torch.float32:
        return False
    return x.shape[1] * weight.shape[1] * weight.shape[2] >= SMALLEST


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x [L, B, in] · weight [L, in, out] + bias [L, 1, out]; differentiable once."""
    out: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _lanes(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        of_x = _lanes(gradient, weight.transpose(1, 2)) if wanted[0] else None
        of_weight = _lanes(x.transpose(1, 2), gradient) if wanted[1] else None
        return of_x, of_weight, gradient.sum(1, keepdim=True) if wanted[2] else None


def _lanes(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left [L, P, Q] · right [L, Q, R] + bias [L, 1, R]."""
    if len(left) == 1:
        return _one(left[0], right[0], bias).unsqueeze(0)
    out = left.new_empty(len(left), left.shape[1], right.shape[2])
    for lane, of_lane in enumerate(out):
        of_lane.copy_(_one(left[lane], right[lane], None if bias is None else bias[lane : lane + 1]))
    return out


def _one(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = _product(left, right.t(), None if bias is None else bias.reshape(-1), "none", [], "")
    return product
