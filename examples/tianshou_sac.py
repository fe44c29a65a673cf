"""Tianshou's SAC on Pendulum with a crystal memory; `learn` is that of `tianshou_dqn.py`.

    python examples/tianshou_sac.py --steps 6000

--memory stock uses Tianshou's own prioritized buffer.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import torch
from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou_dqn import learn
from training import main

from crystalrl import CrystalParams


def critic() -> ContinuousCritic:
    return ContinuousCritic(preprocess_net=Net(state_shape=(3,), action_shape=(1,), hidden_sizes=[64, 64], concat=True))


def train(params: CrystalParams | None, seed: int, steps: int, out: Path | None = None) -> list[float]:
    torch.manual_seed(seed)
    optim = AdamOptimizerFactory(lr=3e-3)
    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=(3,), hidden_sizes=[64, 64]),
        action_shape=(1,),
        unbounded=True,
        conditioned_sigma=True,
    )
    algorithm = SAC(
        policy=SACPolicy(actor=actor, action_space=gym.make("Pendulum-v1").action_space),
        policy_optim=optim,
        critic=critic(),
        critic_optim=optim,
        critic2=critic(),
        critic2_optim=optim,
        gamma=0.95,
        tau=0.02,
        alpha=AutoAlpha(target_entropy=-1.0, log_alpha=0.0, optim=optim),
    )
    return learn(algorithm, "Pendulum-v1", params, seed, steps, out)


if __name__ == "__main__":
    main(__doc__, train, 5_000)
