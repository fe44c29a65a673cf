"""Networks for box actions: the policy, and twin critics (Fujimoto et al. 2018) as 2·L lanes of one network."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.agents.base import AgentParams, Spaces, require_tensor
from crystalrl.agents.exploration import action_size
from crystalrl.agents.networks import LaneNetwork
from crystalrl.agents.pop_art import PopArt
from crystalrl.random import Streams
from crystalrl.types import Batch


def policy_network(spaces: Spaces, params: AgentParams, outputs: int) -> LaneNetwork:
    """From observations to `outputs` numbers per action dimension."""
    hidden, heads = [params.width] * params.depth, spaces.tasks if params.multi_head else 1
    size, norm = outputs * action_size(spaces), params.layer_norm
    return LaneNetwork(spaces.obs, hidden, size, layer_norm=norm, heads=heads, columns=params.columns)


class TwinCritics:
    """Q₁ and Q₂ of observations and actions. Invariant: rows 2l and 2l + 1 of parameters [2L, P] belong to lane l."""

    def __init__(self, spaces: Spaces, params: AgentParams, scale: PopArt | None = None) -> None:
        self.scale = scale
        """How outputs are normalised, if they are."""
        if len(spaces.obs) != 1:
            raise ValueError(f"obs: wanted vectors for box actions, got shape {spaces.obs}")
        hidden, heads = [params.width] * params.depth, params.value_heads(spaces)
        inputs = (spaces.obs[0] + action_size(spaces),)
        norm, columns = params.layer_norm, params.columns
        self.network = LaneNetwork(inputs, hidden, 1, layer_norm=norm, heads=heads, columns=columns)

    def initial(self, streams: Streams) -> Tensor:
        """Initial parameters float32[2L, P]."""
        return torch.stack([self.network.initial(streams) for _ in range(2)], dim=1).flatten(0, 1)

    def inputs(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """What the network reads of a batch, once per twin: inputs [2L, B, D + A] and contexts [2L, B]."""
        return _both(require_tensor(batch.obs), batch.action, batch.context)

    def __call__(self, theta: Tensor, obs: Tensor, action: Tensor, context: Tensor | None) -> Tensor:
        """Q values [L, B, 2] of observations [L, B, D] and actions [L, B, A]."""
        q = self.network(theta, *_both(obs, action, context))
        values = q.view(len(obs), 2, -1).transpose(1, 2)
        return values if self.scale is None else self.scale.values(values, context)


def _both(obs: Tensor, action: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return _twice(torch.cat([obs, action], dim=-1)), None if context is None else _twice(context)


def _twice(x: Tensor) -> Tensor:
    """[L, …] → [2L, …], each row twice."""
    return x.unsqueeze(1).expand(-1, 2, *x.shape[1:]).flatten(0, 1)
