"""The losses of agents and integrations, for batches [B] and, with lanes, [L, B]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.lanes import lanewise
from crystalrl.types import Anchor

Distance = Callable[[Tensor, Tensor], Tensor]
"""(output, target), both [B, n] or [L, B, n] → [B] or [L, B]."""


def weighted_mean(loss: Tensor, weight: Tensor) -> Tensor:
    """Mean over the batch of weight · loss: a scalar for arguments [B], [L] for arguments [L, B]."""
    return (weight * loss).mean(-1)


def huber(error: Tensor) -> Tensor:
    """½·error² up to |error| = 1, linear beyond."""
    size = error.abs()
    return torch.where(size <= 1, 0.5 * error**2, size - 0.5)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """‖output − target‖² over the last axis."""
    return (output - target).square().sum(-1)


def advantages(q: Tensor) -> Tensor:
    """How much better each action is than the mean of all: values [..., A] minus their mean over actions.

    An agent with discrete actions acts by these differences, so they are what its anchors hold. The common level of the
    values stays free, and TD learning can raise or lower it.
    """
    return q - q.mean(-1, keepdim=True)


def gaussian_distance(output: Tensor, target: Tensor) -> Tensor:
    """Bhattacharyya distance of diagonal Gaussians, each given as mean and log σ in one tensor […, 2A]."""
    mean, log_std = output.chunk(2, -1)
    return bhattacharyya(mean, log_std, target)


def bhattacharyya(mean: Tensor, log_std: Tensor, target: Tensor) -> Tensor:
    """Σ (μ − μ₀)² / 4(σ² + σ₀²) + ½ log((σ² + σ₀²) / 2σσ₀): mean and log σ [B, A] or [L, B, A], target […, 2A].

    The KL divergence would grow like 1/σ² once the policy is narrower than the target, and so keep it from becoming
    certain.
    """
    old_mean, old_log_std = target.chunk(2, -1)
    both = _exp(2 * log_std) + _exp(2 * old_log_std)
    apart = 0.25 * (mean - old_mean).square() / both
    return (apart + 0.5 * (_log(0.5 * both) - log_std - old_log_std)).sum(-1)


def gaussian_divergence(output: Tensor, target: Tensor) -> Tensor:
    """KL(target ‖ output) = Σ log σ − log σ₀ + (σ₀² + (μ − μ₀)²) / 2σ² − ½ of diagonal Gaussians, each given as mean
    and log σ in one tensor […, 2A]: the distance of methods that clone policies."""
    (mean, log_std), (old_mean, old_log_std) = output.chunk(2, -1), target.chunk(2, -1)
    spread = _exp(2 * old_log_std) + (mean - old_mean).square()
    return (log_std - old_log_std + 0.5 * spread * _exp(-2 * log_std) - 0.5).sum(-1)


def _exp(x: Tensor) -> Tensor:
    """e^x, with lanes [L, B, n] or without [B, n]."""
    return lanewise(torch.exp, x) if x.dim() == 3 else x.exp()


def _log(x: Tensor) -> Tensor:
    """log x, with lanes [L, B, n] or without [B, n]."""
    return lanewise(torch.log, x) if x.dim() == 3 else x.log()


def anchor_loss(output: Tensor, anchor: Anchor, distance: Distance = squared_error) -> Tensor:
    """Mean over the batch of coefficient · distance(output, target), for outputs [B, …] or [L, B, …]."""
    batch = anchor.coefficient.dim()
    return weighted_mean(distance(output.flatten(batch), anchor.target.flatten(batch)), anchor.coefficient)


def anchor_losses(
    outputs: Mapping[str, Tensor], anchors: Mapping[str, Anchor], distances: Mapping[str, Distance] | None = None
) -> Tensor:
    """Sum of the anchor losses of all anchored outputs; squared error unless `distances` names another distance."""
    terms = []
    for key, anchor in anchors.items():
        if key not in outputs:
            raise KeyError(f"anchor: wanted one of {sorted(outputs)}, got {key!r}")
        terms.append(anchor_loss(outputs[key], anchor, (distances or {}).get(key, squared_error)))
    return torch.stack(terms).sum(0)


class Penalty(Protocol):
    """A continual-learning method that adds a penalty to the loss."""

    def penalty(self, part: str, theta: Tensor) -> Tensor | None:
        """[L] for parameters [L, P] of a network, or [2L] for [2L, P]; None adds nothing."""


def with_penalty(loss: Tensor, method: Penalty | None, parts: Mapping[str, Tensor]) -> Tensor:
    """The loss [L] plus the method's penalties on the parameters of all parts, if there are any."""
    extras = [] if method is None else [method.penalty(name, theta) for name, theta in parts.items()]
    for extra in extras:
        loss = loss if extra is None else loss + extra.view(len(loss), -1).sum(-1)
    return loss
