"""The two losses of every agent: a weighted TD loss, and the pull towards anchors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl.types import Anchor


def weighted_huber(error: Tensor, weight: Tensor) -> Tensor:
    """Mean [L] over the batch of weight · Huber(error); error and weight [L, B], the bend at |error| = 1."""
    size = error.abs()
    huber = torch.where(size <= 1, 0.5 * error**2, size - 0.5)
    return (weight * huber).mean(-1)


def anchor_loss(output: Mapping[str, Tensor], anchors: Mapping[str, Anchor]) -> Tensor:
    """Mean [L] over the batch of coefficient · ‖output − target‖², summed over the anchored outputs [L, B, …]."""
    terms = []
    for key, anchor in anchors.items():
        if key not in output:
            raise KeyError(f"anchor: wanted one of {sorted(output)}, got {key!r}")
        distance = (output[key] - anchor.target).square().flatten(2).sum(-1)
        terms.append((anchor.coefficient * distance).mean(-1))
    return torch.stack(terms).sum(0)
