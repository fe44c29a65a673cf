"""What tests of gradients share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def gradients(module: Any) -> list[Tensor]:
    """Copies of the present gradients of a module's parameters."""
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Largest difference relative to the largest gradient."""
    scale = max(float(g.abs().max()) for g in theirs)
    assert scale > 0
    assert len(ours) == len(theirs)
    return max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True)) / scale


def varied(weight: Tensor) -> bool:
    """Whether the weights of a batch differ enough for a test of weighted gradients."""
    return len(weight.unique()) > len(weight) / 4 and float(weight.max() / weight.clamp_min(1e-6).min()) > 1.05


def gradients_of(value: Tensor, module: Any) -> list[Tensor]:
    """Gradients of a scalar with respect to a module's parameters; zeros where it does not depend on them."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(value, parameters, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
