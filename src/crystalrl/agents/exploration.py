"""Exploration noise, and checks of the action space."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crystalrl.agents.base import Spaces
from crystalrl.random import Stream, Streams, element_normals


def action_count(spaces: Spaces) -> int:
    """Number of discrete actions; raises for box actions."""
    if not isinstance(spaces.action, int):
        raise ValueError(
            f"agent: wanted one for box actions {spaces.action}, such as sac; got one for discrete actions"
        )
    return spaces.action


def action_size(spaces: Spaces) -> int:
    """Dimensions of a box action; raises for discrete actions."""
    if isinstance(spaces.action, int):
        raise ValueError(
            f"agent: wanted one for {spaces.action} discrete actions, such as dqn; got one for box actions"
        )
    return math.prod(spaces.action)


def epsilon_greedy(action: Tensor, epsilon: Tensor, count: int, streams: Streams) -> Tensor:
    """The given actions, int64[L, E] of `count` or floats [L, E, A]; each is uniform with probability epsilon."""
    envs, width = action.shape[1], action[0, 0].numel()
    uniform = streams.uniform(Stream.EXPLORE, (1 + width) * envs)
    chosen, random = uniform[:, :envs] < epsilon, uniform[:, envs:]
    if action.dim() == 2:
        return torch.where(chosen, (random * count).to(torch.int64), action)
    return torch.where(chosen.unsqueeze(-1), (2 * random - 1).to(torch.float32).view_as(action), action)


def normals(streams: Streams, obs: Tensor, size: int) -> Tensor:
    """Standard normals float32[L, B, size] for observations [L, B, …]; the stream advances by one tick."""
    lanes, batch = obs.shape[:2]
    return streams.normal(Stream.EXPLORE, batch * size).to(torch.float32).reshape(lanes, batch, size)


def fixed_normals(streams: Streams, tick: Tensor, obs: Tensor, size: int) -> Tensor:
    """Standard normals float32[L, B, size] that depend on the given tick alone; no stream advances."""
    lanes, batch = obs.shape[:2]
    normal = element_normals(streams.starts(Stream.EVALUATE, tick), batch * size)
    return normal.to(torch.float32).reshape(lanes, batch, size)
