"""Classic control through Gymnasium: CartPole, for learning tests."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from torch import Tensor

from crystalrl.kernels import mix_int
from crystalrl.random import Stream
from crystalrl.suites.base import Policy
from crystalrl.types import Transition

NAME = "CartPole-v1"


class CartPole:
    """One stage, CartPole-v1, for every lane; the score is the return (500 at most)."""

    tasks = (0,)
    obs, actions = 4, 2
    context = capturable = False

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        if torch.device(device).type != "cpu":
            raise ValueError(f"device: wanted cpu for Gymnasium environments, got {device}")
        self.seeds = list(seeds)

    def world(self, envs: int) -> GymnasiumWorld:
        return GymnasiumWorld(self.seeds, envs, Stream.ENVIRONMENT)

    def scorer(self, episodes: int) -> GymnasiumScorer:
        return GymnasiumScorer(self.seeds, episodes)


class GymnasiumWorld:
    """E environments per lane, stepped one after the other. Invariant: `obs` [L, E, 4] is what they show now."""

    def __init__(self, seeds: Sequence[int], envs: int, stream: Stream) -> None:
        self.lanes, self.envs = len(seeds), envs
        self.environments = [gymnasium.make(NAME) for _ in range(self.lanes * envs)]
        self.obs = torch.zeros(self.lanes, envs, 4)
        self._seeds = [mix_int(seed * 1_000_003 + 97 * stream + env) >> 33 for seed in seeds for env in range(envs)]

    def begin(self, stage: Tensor) -> None:
        """Start every environment anew from its own seed."""
        starts = [e.reset(seed=s)[0] for e, s in zip(self.environments, self._seeds, strict=True)]
        self.obs.copy_(self._stack(starts))

    def step(self, action: Tensor) -> Transition:
        """Take actions int64[L, E]; finished episodes start anew."""
        before = self.obs.clone()
        steps = [e.step(int(a)) for e, a in zip(self.environments, action.flatten().tolist(), strict=True)]
        after = self._stack([step[0] for step in steps])
        reward, terminated, truncated = (
            torch.tensor([step[i] for step in steps]).view(self.lanes, self.envs) for i in (1, 2, 3)
        )
        shown = [
            e.reset()[0] if step[2] or step[3] else step[0] for e, step in zip(self.environments, steps, strict=True)
        ]
        self.obs.copy_(self._stack(shown))
        return Transition(before, action, reward.to(torch.float32), after, terminated, truncated)

    def _stack(self, rows: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(rows)).view(self.lanes, self.envs, -1)


class GymnasiumScorer:
    """Mean return of test episodes that start the same at every call."""

    def __init__(self, seeds: Sequence[int], episodes: int) -> None:
        self.world = GymnasiumWorld(seeds, episodes, Stream.EVALUATE)

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """float64[L, M] for stages int64[L, M], all of them the same environment."""
        self.world.begin(stage[:, 0])
        total = torch.zeros(self.world.lanes, self.world.envs, dtype=torch.float64)
        running = torch.ones_like(total, dtype=torch.bool)
        while bool(running.any()):
            step = self.world.step(policy(self.world.obs))
            total += torch.as_tensor(step.reward) * running
            running &= ~(torch.as_tensor(step.terminated) | torch.as_tensor(step.truncated))
        return total.mean(-1, keepdim=True).expand(stage.shape)
