"""What a buffer holds, under the names and in the shapes that SB3's own buffers use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from torch import Tensor

from crystalrl.memory import ReplayMemory
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED


class Stored:
    """An attribute that is read from the buffer's memory at each access: a copy, in the order of the slots."""

    def __init__(self, read: Callable[[ReplayMemory], Any]) -> None:
        self.read = read

    def __get__(self, buffer: Any, kind: type | None = None) -> Any:
        return self if buffer is None else self.read(buffer.built_memory)


def occupied(memory: ReplayMemory, column: Tensor) -> Tensor:
    """The stored experiences of a column [used, …]."""
    return column[memory.sampler.occupied(torch.arange(len(column), device=memory.device)[None])[0]]


def field(name: str) -> Stored:
    """One field of the stored experiences, [size, 1, …]; a dict for dict observations."""

    def read(memory: ReplayMemory) -> Any:
        value = memory.arena.fields(memory.ledger.used)[name]
        if isinstance(value, Mapping):
            return {part: with_environments(occupied(memory, column[0])) for part, column in value.items()}
        array = with_environments(occupied(memory, value[0]))
        return array[..., None] if name == "action" and array.ndim == 2 else array

    return Stored(read)


def with_environments(column: Tensor) -> NDArray[Any]:
    """[size, …] as [size, 1, …]: SB3 has an axis of environments, but slots are shared by all environments."""
    array: NDArray[Any] = column.cpu().numpy()[:, None].copy()
    return array


def ending(flags: int) -> Stored:
    """1.0 where an experience ended in one of these ways, else 0.0; [size, 1]."""

    def read(memory: ReplayMemory) -> NDArray[np.float32]:
        endings = memory.arena.columns["ending"][: memory.ledger.used]
        return with_environments((occupied(memory, endings) & flags) > 0).astype(np.float32)

    return Stored(read)


def as_declared(value: Any, space: spaces.Space[Any], lead: int, shape: Sequence[int]) -> NDArray[Any]:
    """Observations [lead, *shape]. Integers become floats where the space has floats: `VecNormalize` declares floats,
    but the observations that SB3 stores are the original ones, such as images.
    """
    array = np.reshape(value, (lead, *shape))
    whole = array.dtype.kind in "iub" and space.dtype is not None and space.dtype.kind == "f"
    return array.astype(np.float32) if whole else array


def normalised(obs: Any, env: Any) -> Any:
    """Observations as the `VecNormalize` around the training environments gives them now."""
    if isinstance(obs, Mapping):
        device = next(iter(obs.values())).device
        parts = env.normalize_obs({name: part.cpu().numpy() for name, part in obs.items()})
        return {name: torch.as_tensor(part, device=device) for name, part in parts.items()}
    return torch.as_tensor(env.normalize_obs(obs.cpu().numpy()), device=obs.device)


def step_of(values: Any, step: int) -> Any:
    """One step of arrays [M, …], which may be the parts of a dict observation."""
    return {name: part[step] for name, part in values.items()} if isinstance(values, Mapping) else values[step]


class Contents(ReplayBuffer):
    """What is stored, as SB3's own buffers show it, and `extend`. Slots are not in chronological order."""

    memory: ReplayMemory | None = None
    observations: Any = field("obs")
    next_observations: Any = field("next_obs")
    actions: Any = field("action")
    rewards: Any = field("reward")
    dones: Any = ending(TERMINATED | TRUNCATED)
    timeouts: Any = ending(TRUNCATED)
    full: Any = Stored(lambda memory: len(memory) >= memory.capacity)
    pos: Any = Stored(lambda memory: len(memory) % memory.capacity)

    def extend(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        """Add M steps of all environments, as M calls of `add`: arrays [M, n_envs, …], and M lists of infos."""
        for step in range(len(done)):
            flat = (given[step] for given in (action, reward, done, infos))
            self.add(step_of(obs, step), step_of(next_obs, step), *flat)

    def _reshape(self, obs: Any) -> Any:
        if isinstance(obs, Mapping):
            shapes: Any = self.obs_shape
            parts: Any = self.observation_space
            return {n: as_declared(part, parts[n], self.n_envs, shapes[n]) for n, part in obs.items()}
        return as_declared(obs, self.observation_space, self.n_envs, self.obs_shape)
