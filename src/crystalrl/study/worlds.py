"""Worlds that a run can leave and enter again at any step.

A world of plain tensors (whatever can step inside a CUDA graph) is saved as they are. One that has Gymnasium
`environments` is saved as the seed of every episode's start and the actions taken since. One that offers `state_dict`
and `load_state_dict` knows best. Any other can be left between tasks only, where `begin` starts it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.kernels import mix_int
from crystalrl.memory.checkpoint import CheckpointError
from crystalrl.random import Streams


class Recorded:
    """A Gymnasium environment that can be brought back where it is.

    Invariant: after `reset(seed=first)`, episode k starts from a seed that is a function of (first, k), and `actions`
    are those since; so an environment that its seed determines is determined by the three.
    """

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.first, self.episode = 0, 0
        self.actions: list[Any] = []

    def reset(self, seed: int | None = None) -> Any:
        """Start an episode; without a seed, the next one."""
        self.first, self.episode = (seed, 0) if seed is not None else (self.first, self.episode + 1)
        return self._start()

    def _start(self) -> Any:
        self.actions = []
        later = mix_int(self.first * 1_000_003 + self.episode) >> 33
        return self.environment.reset(seed=later if self.episode else self.first)

    def step(self, action: Any) -> Any:
        """As the environment does."""
        self.actions.append(action)
        return self.environment.step(action)

    def restore(self, first: int, episode: int, actions: Sequence[Any]) -> Any:
        """Play an episode again up to where it was; what is seen there."""
        self.first, self.episode = first, episode
        seen = self._start()[0]
        for action in actions:
            seen = self.step(action)[0]
        return seen


def recorded(world: Any) -> Any:
    """The world, its Gymnasium environments (where it has some in this process) recorded."""
    if hasattr(world, "environments"):
        world.environments = [Recorded(environment) for environment in world.environments]
    return world


def world_state(world: Any, plain: bool, between: bool) -> dict[str, Tensor] | None:
    """The world as tensors on CPU; None if it cannot be left here. `plain`: its state is its tensors; `between`: the
    next task has not begun.
    """
    if hasattr(world, "state_dict"):
        state: dict[str, Tensor] = world.state_dict()
        return state
    if plain:
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in _tensors(world).items()}
    if between:
        return {}
    if not hasattr(world, "environments"):
        return None
    each: list[Recorded] = world.environments
    taken = [np.asarray(action) for one in each for action in one.actions]
    return {
        "obs": world.obs.clone(),
        "first": torch.tensor([one.first for one in each]),
        "episode": torch.tensor([one.episode for one in each]),
        "count": torch.tensor([len(one.actions) for one in each]),
        "actions": torch.from_numpy(np.stack(taken)) if taken else torch.empty(0),
    }


def load_world(world: Any, plain: bool, state: Mapping[str, Tensor]) -> None:
    """Enter the world where `world_state` left it."""
    if not state:
        return
    if hasattr(world, "load_state_dict"):
        world.load_state_dict(state)
    elif plain:
        for name, tensor in _tensors(world).items():
            tensor.copy_(state[name])
    else:
        _play_again(world, state)


def _play_again(world: Any, state: Mapping[str, Tensor]) -> None:
    taken = iter(state["actions"].numpy())
    seen = []
    for one, first, episode, count in zip(
        world.environments, *(state[name].tolist() for name in ("first", "episode", "count")), strict=True
    ):
        actions = [next(taken) for _ in range(count)]
        seen.append(one.restore(first, episode, [a if a.ndim else a.item() for a in map(np.asarray, actions)]))
    shown = torch.from_numpy(np.stack(seen)).view_as(world.obs)
    if not torch.equal(shown, state["obs"]):
        raise CheckpointError("world: wanted what was seen before, got other observations from the same actions")
    world.obs.copy_(shown)


def _tensors(world: Any) -> dict[str, Tensor]:
    """Live tensors of a world, its random streams' included."""
    found = {}
    for name, value in vars(world).items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, Streams):
            found[f"{name}.ticks"] = value.ticks
    return found
