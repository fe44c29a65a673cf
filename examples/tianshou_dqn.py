"""DQN of Tianshou with a memory that crystallizes: what differs from plain Tianshou is the buffer and `attach`.

    python examples/tianshou_dqn.py --steps 8000

With --memory prioritized it is Tianshou's own prioritized buffer.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

from crystalrl.integrations.tianshou import CrystalReplayBuffer

ENVS, SLOTS = 4, 2_400  # Tianshou's own buffers fail if an episode, at most 500 steps, fills its share


def train(memory: str, seed: int, steps: int, out: Path | None = None) -> list[float]:
    """Returns of the episodes."""
    torch.manual_seed(seed)
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(ENVS)])
    envs.seed(seed)
    space = gym.make("CartPole-v1").action_space
    space.seed(seed)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(4,), action_shape=2, hidden_sizes=[64, 64]), action_space=space, eps_training=1.0
    )
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.98, target_update_freq=200)
    buffer: Any
    if memory == "crystal":
        buffer = CrystalReplayBuffer(SLOTS, ENVS, seed=seed)
        buffer.attach(algorithm)
    else:
        buffer = PrioritizedVectorReplayBuffer(SLOTS, ENVS, alpha=0.6, beta=0.4)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    returns: list[float] = []
    with policy_within_training_step(policy):
        for step in range(0, steps, 20):
            policy.set_eps_training(max(0.05, 1 - 0.95 * step / (0.3 * steps)))
            returns += collector.collect(n_step=20).returns.tolist()
            if step >= 500:
                for _ in range(10):
                    algorithm.update(buffer=buffer, sample_size=128)  # consolidates, too, when it is time
    if out is not None:
        buffer.save(out)
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", choices=["crystal", "prioritized"], default="crystal")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    returns = train(given.memory, given.seed, given.steps, given.out)
    print(f"{given.memory}: {len(returns)} episodes, mean return of the last 20: {sum(returns[-20:]) / 20:.1f}")
