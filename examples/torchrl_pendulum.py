"""TorchRL's SAC and TD3 on Pendulum with a crystal memory; `learn` is that of `torchrl_dqn.py`.

    python examples/torchrl_pendulum.py --steps 6000

--memory stock uses TorchRL's own buffer. The command trains SAC; `train(..., algorithm="TD3")` trains TD3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import GymEnv, RewardSum, TransformedEnv
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    NormalParamExtractor,
    ProbabilisticActor,
    TanhModule,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import SACLoss, TD3Loss
from torchrl_dqn import Agent, learn
from training import main

from crystalrl import CrystalParams


def network(inputs: int, outputs: int) -> MLP:
    return MLP(in_features=inputs, out_features=outputs, num_cells=[64, 64])


def loss_of(algorithm: str, spec: Any) -> tuple[Any, Any]:
    """The policy and the loss of SAC or TD3."""
    critic = ValueOperator(network(4, 1), in_keys=["observation", "action"])
    if algorithm == "SAC":
        parameters = TensorDictModule(
            nn.Sequential(network(3, 2), NormalParamExtractor()), ["observation"], ["loc", "scale"]
        )
        bounds = {"low": spec.space.low, "high": spec.space.high}
        actor = ProbabilisticActor(
            parameters, in_keys=["loc", "scale"], spec=spec, distribution_class=TanhNormal, distribution_kwargs=bounds,
            return_log_prob=False,
        )  # fmt: skip
        return actor, SACLoss(actor, critic, action_spec=spec, loss_function="l2")
    bounded = TanhModule(in_keys=["action"], spec=spec)
    actor = TensorDictSequential(TensorDictModule(network(3, 1), ["observation"], ["action"]), bounded)
    return actor, TD3Loss(actor, critic, action_spec=spec, loss_function="l2")


def make(algorithm: str, seed: int, steps: int) -> Agent:
    torch.manual_seed(seed)
    env = TransformedEnv(GymEnv("Pendulum-v1"), RewardSum())
    env.set_seed(seed)
    actor, loss = loss_of(algorithm, env.action_spec)
    loss.make_value_estimator(gamma=0.95)
    td3 = algorithm == "TD3"
    noise = AdditiveGaussianModule(
        env.action_spec,
        sigma_init=1.0,
        sigma_end=0.1 if td3 else 0.0,
        annealing_num_steps=steps // (5 if td3 else 4),
    )
    policy = TensorDictSequential(actor, noise)
    return Agent(env, policy, loss, learning_rate=1e-3, target_rate=0.02 if td3 else 0.01, slots=6_000, updates=20)


def train(
    params: CrystalParams | None, seed: int, steps: int, out: Path | None = None, algorithm: str = "SAC"
) -> list[float]:
    return learn(make(algorithm, seed, steps), params, seed, steps, out)


if __name__ == "__main__":
    main(__doc__, train, 6_000)
