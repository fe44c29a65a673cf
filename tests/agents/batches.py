"""Batches for agents of two lanes, and an explicit perceptron for one sample of one lane."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.agents.networks import LaneNetwork
from crystalrl.types import Anchor, Batch

OBS, ACTION = 3, 2


def batch(size: int = 6, discrete: bool = False, obs: tuple[int, ...] = (OBS,), **changes: object) -> Batch:
    random = torch.Generator().manual_seed(0)
    box = torch.rand(2, size, ACTION, generator=random) * 2 - 1
    fields = {
        "obs": torch.randn(2, size, *obs, generator=random),
        "action": torch.randint(ACTION, (2, size), generator=random) if discrete else box,
        "reward": torch.randn(2, size, generator=random),
        "next_obs": torch.randn(2, size, *obs, generator=random),
        "discount": torch.full((2, size), 0.9),
        "weight": torch.rand(2, size, generator=random) + 0.5,
        "index": torch.zeros(2, size, dtype=torch.int64),
    }
    return Batch(**{**fields, **changes})


def anchors(shapes: dict[str, tuple[int, ...]], size: int = 6) -> dict[str, Anchor]:
    random = torch.Generator().manual_seed(1)
    return {
        key: Anchor(torch.randn(2, size, *shape, generator=random), torch.rand(2, size, generator=random))
        for key, shape in shapes.items()
    }


def perceptron(network: LaneNetwork, row: Tensor, x: Tensor) -> Tensor:
    """Outputs [A·M (and V)] for one observation [D], layer by layer."""
    layers = network.split(row[None])
    for weight, bias in layers[: network.depth]:
        x = torch.relu(x @ weight[0] + bias[0, 0])
    weight, bias = layers[network.depth]
    return x @ weight[0] + bias[0, 0]
