"""Agents and batches of two lanes, and an explicit perceptron for one sample of one lane."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from crystalrl.agents import DQN, SAC, TD3, Agent, DQNParams, Rainbow, RainbowParams, SACParams, Spaces, TD3Params
from crystalrl.agents.critics import TwinCritics
from crystalrl.agents.networks import LaneNetwork
from crystalrl.random import Streams
from crystalrl.types import Anchor, Batch

OBS, ACTION = 3, 2
DISCRETE, BOX = Spaces((OBS,), ACTION), Spaces((OBS,), (ACTION,), tasks=3)


def dqn(**params: object) -> DQN:
    return DQN(DISCRETE, DQNParams(width=8, **params), Streams([1, 2]))


def rainbow(**params: object) -> Rainbow:
    return Rainbow(DISCRETE, RainbowParams(**{"width": 8, **params}), Streams([1, 2]))


def sac(**params: object) -> SAC:
    return SAC(BOX, SACParams(width=8, depth=2, **params), Streams([1, 2]))


def td3(**params: object) -> TD3:
    return TD3(BOX, TD3Params(width=8, depth=2, **params), Streams([1, 2]))


AGENTS = {"dqn": dqn, "rainbow": rainbow, "sac": sac, "td3": td3}


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


def batch_for(agent: Agent, **changes: object) -> Batch:
    """A batch with actions of the agent's kind."""
    return batch(discrete=isinstance(agent, DQN | Rainbow), **changes)


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


def twin_values(twins: TwinCritics, rows: Tensor, lane: int, obs: Tensor, action: Tensor) -> Tensor:
    """Q₁ and Q₂ of one sample."""
    both = torch.cat([obs, action])
    return torch.stack([perceptron(twins.network, rows[2 * lane + twin], both)[0] for twin in range(2)])


def squashed_gaussian(mean: Tensor, log_std: Tensor) -> TransformedDistribution:
    return TransformedDistribution(Independent(Normal(mean, log_std.exp()), 1), [TanhTransform(cache_size=1)])
