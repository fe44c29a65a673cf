"""Anchor losses, for training loops that compute their losses explicitly.

Where a library does not expose its losses, `pull_gradients` gives the gradients to add (`sb3.hooks`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crystalrl.losses import advantages, anchor_loss, bhattacharyya, weighted_mean
from crystalrl.types import Anchor


def squared_pull(anchor: Anchor, output: Tensor) -> Tensor:
    """Mean over the batch of coefficient · ‖output − target‖², for values or actions [B, …]."""
    if output.shape != anchor.target.shape:
        raise ValueError(f"output: wanted the anchor's shape {list(anchor.target.shape)}, got {list(output.shape)}")
    return anchor_loss(output, anchor)


def advantage_pull(anchor: Anchor, q: Tensor) -> Tensor:
    """The same for the advantages of values [B, A] of all actions."""
    return squared_pull(anchor, advantages(q))


def gaussian_pull(anchor: Anchor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Mean over the batch of coefficient · Bhattacharyya distance: mean and log σ [B, A] against the target [B, 2A]."""
    if mean.shape != log_std.shape or anchor.target.shape != (len(mean), 2 * mean.shape[-1]):
        got = f"{list(mean.shape)} and {list(log_std.shape)} for a target {list(anchor.target.shape)}"
        raise ValueError(f"mean, log_std: wanted two of shape [B, A] for an anchor [B, 2A], got {got}")
    return weighted_mean(bhattacharyya(mean, log_std, anchor.target), anchor.coefficient)


def pull_gradients(pull: Callable[..., Tensor], anchor: Anchor, *outputs: Tensor) -> tuple[Tensor, ...]:
    """Gradient of a pull with respect to each output, for libraries whose losses cannot be extended."""
    leaves = [output.detach().requires_grad_() for output in outputs]
    with torch.enable_grad():
        return torch.autograd.grad(pull(anchor, *leaves), leaves)
