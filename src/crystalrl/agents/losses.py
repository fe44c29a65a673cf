"""The two losses of every agent: a weighted TD loss, and the pull towards anchors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.agents.networks import lanewise
from crystalrl.types import Anchor


class Penalty(Protocol):
    """What a continual-learning method adds to the loss."""

    def penalty(self, theta: Tensor) -> Tensor | None:
        """[L] for parameters [L, P]; None adds nothing."""


Distance = Callable[[Tensor, Tensor], Tensor]
"""(output, target), both [L, B, …] → [L, B]."""


def weighted(loss: Tensor, weight: Tensor) -> Tensor:
    """Mean [L] over the batch of weight · loss, both [L, B]."""
    return (weight * loss).mean(-1)


def huber(error: Tensor) -> Tensor:
    """½·error² up to |error| = 1, a line beyond."""
    size = error.abs()
    return torch.where(size <= 1, 0.5 * error**2, size - 0.5)


def squared(output: Tensor, target: Tensor) -> Tensor:
    """‖output − target‖², [L, B]."""
    return (output - target).square().flatten(2).sum(-1)


def gaussian_kl(output: Tensor, target: Tensor) -> Tensor:
    """KL(target ‖ output) [L, B] of diagonal Gaussians given as mean and log σ, [L, B, 2A]."""
    mean, log_std = output.chunk(2, -1)
    old_mean, old_log_std = target.chunk(2, -1)
    precision, old_variance = lanewise(torch.exp, -2 * log_std), lanewise(torch.exp, 2 * old_log_std)
    terms = log_std - old_log_std + 0.5 * (old_variance + (mean - old_mean).square()) * precision - 0.5
    return terms.sum(-1)


def anchor_loss(
    output: Mapping[str, Tensor], anchors: Mapping[str, Anchor], distance: Mapping[str, Distance] | None = None
) -> Tensor:
    """Mean [L] over the batch of coefficient · distance(output, target), summed over the anchored outputs [L, B, …].

    The distance is the squared one, unless another is given for a key.
    """
    terms = []
    for key, anchor in anchors.items():
        if key not in output:
            raise KeyError(f"anchor: wanted one of {sorted(output)}, got {key!r}")
        how = (distance or {}).get(key, squared)
        terms.append(weighted(how(output[key], anchor.target), anchor.coefficient))
    return torch.stack(terms).sum(0)


def with_penalty(loss: Tensor, method: Penalty | None, theta: Tensor) -> Tensor:
    """The loss [L] and what a method adds to it."""
    extra = method.penalty(theta) if method is not None else None
    return loss if extra is None else loss + extra
