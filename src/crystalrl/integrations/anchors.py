"""The pull of anchors as losses, for training loops that write their losses out.

Stable-Baselines3 does not let one: there the gradients of the same losses are added (`sb3.hooks`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crystalrl.types import Anchor


def squared_pull(anchor: Anchor, output: Tensor) -> Tensor:
    """Mean over the batch of coefficient · ‖output − target‖², for values or actions [B, …]."""
    if output.shape != anchor.target.shape:
        raise ValueError(f"output: wanted the anchor's shape {list(anchor.target.shape)}, got {list(output.shape)}")
    return (anchor.coefficient * (output - anchor.target).square().flatten(1).sum(1)).mean()


def gaussian_pull(anchor: Anchor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Mean over the batch of coefficient · KL(anchor ‖ policy) for mean and log σ [B, A]; the target has both, [B, 2A]

    KL = Σ log σ − log σ₀ + (σ₀² + (μ − μ₀)²) / 2σ² − ½. Where the anchor acts, the policy must too.
    """
    if mean.shape != log_std.shape or anchor.target.shape != (len(mean), 2 * mean.shape[-1]):
        got = f"{list(mean.shape)} and {list(log_std.shape)} for a target {list(anchor.target.shape)}"
        raise ValueError(f"mean, log_std: wanted two of shape [B, A] for an anchor [B, 2A], got {got}")
    old_mean, old_log_std = anchor.target.chunk(2, -1)
    spread = (torch.exp(2 * old_log_std) + (mean - old_mean) ** 2) * torch.exp(-2 * log_std)
    divergence = (log_std - old_log_std + 0.5 * spread - 0.5).sum(-1)
    return (anchor.coefficient * divergence).mean()


def pull_gradients(pull: Callable[..., Tensor], anchor: Anchor, *outputs: Tensor) -> tuple[Tensor, ...]:
    """Gradient of a pull with respect to each output, for libraries in whose losses nothing can be added."""
    leaves = [output.detach().requires_grad_() for output in outputs]
    with torch.enable_grad():
        return torch.autograd.grad(pull(anchor, *leaves), leaves)
