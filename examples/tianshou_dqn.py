"""Tianshou's DQN with a crystal memory: it differs from plain Tianshou by the buffer and `attach`.

    python examples/tianshou_dqn.py --steps 8000

--memory stock uses Tianshou's own prioritized buffer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step
from training import main

from crystalrl import CrystalParams
from crystalrl.integrations.tianshou import CrystalReplayBuffer

ENVS, SLOTS = 4, 2_400  # Tianshou's own buffers fail if one episode (up to 500 steps) fills SLOTS / ENVS


def learn(
    algorithm: Any, env: str, params: CrystalParams | None, seed: int, steps: int, out: Path | None
) -> list[float]:
    """Returns of the episodes. Ten gradient steps follow every twenty environment steps."""
    np.random.seed(seed)  # noqa: NPY002 - Tianshou explores and samples with it
    envs = DummyVectorEnv([lambda: gym.make(env) for _ in range(ENVS)])
    envs.seed(seed)
    policy = algorithm.policy
    if params is None:
        buffer: Any = PrioritizedVectorReplayBuffer(SLOTS, ENVS, alpha=0.6, beta=0.4)
    else:
        buffer = CrystalReplayBuffer(SLOTS, ENVS, params, seed=seed)
        buffer.attach(algorithm)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    returns: list[float] = []
    with policy_within_training_step(policy):
        for step in range(0, steps, 20):
            if hasattr(policy, "set_eps_training"):
                policy.set_eps_training(max(0.05, 1 - 0.95 * step / (0.3 * steps)))
            returns += collector.collect(n_step=20).returns.tolist()
            if step >= 500:
                for _ in range(10):
                    algorithm.update(buffer=buffer, sample_size=128)  # also consolidates when due
    if out is not None:
        buffer.save(out)
    return returns


def train(params: CrystalParams | None, seed: int, steps: int, out: Path | None = None) -> list[float]:
    torch.manual_seed(seed)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(4,), action_shape=2, hidden_sizes=[64, 64]),
        action_space=gym.make("CartPole-v1").action_space,
        eps_training=1.0,
    )
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.98, target_update_freq=200)
    return learn(algorithm, "CartPole-v1", params, seed, steps, out)


if __name__ == "__main__":
    main(__doc__, train, 10_000)
