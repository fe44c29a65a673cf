"""Small algorithms of Tianshou for the tests, trained without an environment."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.sac import SAC, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.torch_utils import policy_within_training_step

from crystalrl import CrystalParams
from crystalrl.integrations.tianshou import CrystalReplayBuffer
from tests.integrations.twins import QUICK

D, A, GAMMA, ENVS = 3, 2, 0.9, 4
OBS = gym.spaces.Box(-10, 10, (D,), np.float32)
NO_ANCHORS = CrystalParams.anchored(**QUICK | {"settle": None}, kappa=0.0)
ANCHORS = CrystalParams.anchored(**QUICK, kappa=0.7, practice=0)


class Joined(torch.nn.Module):
    """A network that takes the parts of a dict observation side by side."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Any, *args: Any, **options: Any) -> Any:
        if isinstance(obs, Batch):
            obs = np.concatenate([obs[part] for part in sorted(obs.get_keys())], 1)
        return self.network(obs, *args, **options)


def algorithm(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    optim = AdamOptimizerFactory(lr=1e-3)
    if name == "DQN":
        space = gym.spaces.Discrete(A)
        policy = DiscreteQLearningPolicy(
            model=Joined(Net(state_shape=(D,), action_shape=A, hidden_sizes=[16, 16])),
            action_space=space,
            observation_space=OBS,
        )
        return DQN(policy=policy, optim=optim, gamma=GAMMA, target_update_freq=10, **options)
    space = gym.spaces.Box(-1, 1, (A,), np.float32)

    def critic() -> Joined:
        net = Net(state_shape=(D,), action_shape=(A,), hidden_sizes=[16, 16], concat=True)
        return Joined(ContinuousCritic(preprocess_net=net))

    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=(D,), hidden_sizes=[16, 16]),
        action_shape=(A,),
        unbounded=True,
        conditioned_sigma=True,
    )
    return SAC(
        policy=SACPolicy(actor=Joined(actor), action_space=space, observation_space=OBS),
        policy_optim=optim,
        critic=critic(),
        critic_optim=optim,
        critic2=critic(),
        critic2_optim=optim,
        gamma=GAMMA,
        alpha=0.2,
        **options,
    )


def step(name: str, rng: np.random.Generator) -> Batch:
    """One step of every environment."""
    act = rng.integers(A, size=ENVS) if name == "DQN" else rng.uniform(-1, 1, (ENVS, A)).astype(np.float32)
    obs, after = rng.normal(size=(2, ENVS, D)).astype(np.float32)
    ends = rng.random((2, ENVS)) < 0.1
    return Batch(
        obs=obs, act=act, rew=rng.normal(size=ENVS), terminated=ends[0], truncated=ends[1], obs_next=after, info={}
    )


def make(
    name: str, params: CrystalParams | None = None, slots: int = 300, **options: Any
) -> tuple[Any, CrystalReplayBuffer]:
    made = algorithm(name, **options)
    buffer = CrystalReplayBuffer(slots, ENVS, params or ANCHORS, seed=3)
    buffer.attach(made)
    return made, buffer


def trained(name: str, params: CrystalParams | None = None, steps: int = 80) -> tuple[Any, CrystalReplayBuffer]:
    """After some steps of every environment, with a gradient step each."""
    made, buffer = make(name, params)
    train(made, buffer, [step(name, rng) for rng in [np.random.default_rng(0)] for _ in range(steps)])
    return made, buffer


def train(made: Any, buffer: Any, stream: list[Batch]) -> None:
    """Add steps of every environment, with a gradient step each."""
    torch.manual_seed(1)
    with policy_within_training_step(made.policy), warnings.catch_warnings():
        for k, given in enumerate(stream):
            buffer.add(given)
            if k > 10:
                made.update(buffer=buffer, sample_size=32)
