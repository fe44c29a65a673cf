"""TorchRL's DQN with a crystal memory: TorchRL's collector, storage and loss, our sampler and writer.

python examples/torchrl_dqn.py --steps 6000         # --memory stock: TorchRL's own buffer
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, RewardSum, TransformedEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate
from training import main

from crystalrl import CrystalParams
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss


class Agent(NamedTuple):
    env: Any
    policy: Any  # its last module explores, less and less
    loss: Any
    learning_rate: float
    target_rate: float
    sampler: Any = None  # TorchRL's own sampler for --memory stock; None: uniform
    slots: int = 2_000
    updates: int = 10  # gradient steps after every twenty environment steps


def learn(agent: Agent, params: CrystalParams | None, seed: int, steps: int, out: Path | None) -> list[float]:
    loss, target = agent.loss, SoftUpdate(agent.loss, tau=agent.target_rate)
    optimiser = torch.optim.Adam([p for p in loss.parameters() if p.requires_grad], lr=agent.learning_rate)
    options: dict[str, Any] = {"storage": LazyTensorStorage(agent.slots), "sampler": agent.sampler, "batch_size": 128}
    if params is not None:
        loss = MemoryLoss(loss)  # weights the loss, adds the anchor losses, reports TD errors to the memory
        sampler = CrystalSampler(loss, params, seed=seed)
        options |= {"sampler": sampler, "writer": sampler.writer}
    buffer = TensorDictReplayBuffer(**options)
    returns: list[float] = []
    for k, data in enumerate(Collector(agent.env, agent.policy, frames_per_batch=20, total_frames=steps)):
        agent.policy[-1].step(data.numel())
        buffer.extend(data.reshape(-1))
        returns += data["next", "episode_reward"][data["next", "done"]].tolist()
        for _ in range(agent.updates if k >= 25 else 0):
            batch = buffer.sample()
            sum(value for name, value in loss(batch).items() if name.startswith("loss")).backward()
            optimiser.step()
            optimiser.zero_grad()
            target.step()
            buffer.update_tensordict_priority(batch)  # for TorchRL's sampler; ours gets the TD errors from the loss
        if params is not None and sampler.due:
            sampler.consolidate()
    if out is not None:
        buffer.dumps(out)
    return returns


def make(seed: int, steps: int) -> Agent:
    torch.manual_seed(seed)
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), RewardSum())
    env.set_seed(seed)
    q = QValueActor(MLP(in_features=4, out_features=2, num_cells=[64, 64]), spec=env.action_spec)
    noise = EGreedyModule(env.action_spec, eps_init=1.0, eps_end=0.05, annealing_num_steps=int(0.3 * steps))
    loss = DQNLoss(q, action_space="categorical", delay_value=True)
    loss.make_value_estimator(gamma=0.98)
    return Agent(env, TensorDictSequential(q, noise), loss, learning_rate=1e-3, target_rate=0.01)


def train(params: CrystalParams | None, seed: int, steps: int, out: Path | None = None) -> list[float]:
    return learn(make(seed, steps), params, seed, steps, out)


if __name__ == "__main__":
    main(__doc__, train, 8_000)
