"""Random actions, and what an agent asks of a task's actions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crystalrl.agents.base import Spaces
from crystalrl.random import Stream, Streams, element_normals


def discrete(spaces: Spaces) -> int:
    """How many actions there are, for agents that choose one of several."""
    if not isinstance(spaces.action, int):
        raise ValueError(f"agent: wanted one for box actions {spaces.action}, such as sac; got one that counts actions")
    return spaces.action


def box(spaces: Spaces) -> int:
    """Numbers in an action, for agents that steer."""
    if isinstance(spaces.action, int):
        raise ValueError(
            f"agent: wanted one for {spaces.action} discrete actions, such as dqn; got one for box actions"
        )
    return math.prod(spaces.action)


def mixed(action: Tensor, epsilon: Tensor, count: int, streams: Streams) -> Tensor:
    """Actions int64[L, E], or floats [L, E, A] in [−1, 1]; each is random with probability epsilon."""
    envs, width = action.shape[1], action[0, 0].numel()
    uniform = streams.uniform(Stream.EXPLORE, (1 + width) * envs)
    chosen, fresh = uniform[:, :envs] < epsilon, uniform[:, envs:]
    if action.dim() == 2:
        return torch.where(chosen, (fresh * count).to(torch.int64), action)
    return torch.where(chosen.unsqueeze(-1), (2 * fresh - 1).to(torch.float32).view_as(action), action)


def normals(streams: Streams, obs: Tensor, size: int) -> Tensor:
    """Standard normals float32[L, B, size] for observations [L, B, …]; one tick."""
    lanes, batch = obs.shape[:2]
    return streams.normal(Stream.EXPLORE, batch * size).to(torch.float32).reshape(lanes, batch, size)


def fixed_normals(streams: Streams, tick: Tensor, obs: Tensor, size: int) -> Tensor:
    """The same, but those that belong to a tick: no stream advances."""
    lanes, batch = obs.shape[:2]
    normal = element_normals(streams.starts(Stream.EVALUATE, tick), batch * size)
    return normal.to(torch.float32).reshape(lanes, batch, size)
