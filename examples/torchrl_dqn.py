"""DQN of TorchRL with a memory that crystallizes: its own collector, storage and loss, our sampler and writer.

    python examples/torchrl_dqn.py --steps 6000

With --memory random it is TorchRL's own buffer.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate

from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss


def train(memory: str, seed: int, steps: int, out: Path | None = None) -> list[float]:
    """Returns of the episodes."""
    torch.manual_seed(seed)
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
    env.set_seed(seed)
    q = QValueActor(MLP(in_features=4, out_features=2, num_cells=[64, 64]), spec=env.action_spec)
    greedy = EGreedyModule(env.action_spec, eps_init=1.0, eps_end=0.05, annealing_num_steps=int(0.3 * steps))
    loss: Any = DQNLoss(q, action_space="categorical", delay_value=True)
    loss.make_value_estimator(gamma=0.98)
    target = SoftUpdate(loss, eps=0.99)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    options: dict[str, Any] = {"storage": LazyTensorStorage(2_000), "batch_size": 128}
    if memory == "crystal":
        loss = MemoryLoss(loss)  # weighs the loss, adds the anchors' pull, tells the memory the TD errors
        sampler = CrystalSampler(loss, seed=seed)
        options |= {"sampler": sampler, "writer": sampler.writer}
    buffer = TensorDictReplayBuffer(**options)
    returns, score = [], 0.0
    collector = Collector(env, TensorDictSequential(q, greedy), frames_per_batch=20, total_frames=steps)
    for k, data in enumerate(collector):
        greedy.step(data.numel())
        buffer.extend(data.reshape(-1))
        for reward, done in zip(data["next", "reward"], data["next", "done"], strict=True):
            score += float(reward)
            if done:
                returns.append(score)
                score = 0.0
        if k < 25:
            continue
        for _ in range(10):
            losses = loss(buffer.sample())
            sum(value for name, value in losses.items() if name.startswith("loss")).backward()
            optimiser.step()
            optimiser.zero_grad()
            target.step()
        if memory == "crystal" and sampler.due:
            sampler.consolidate()
    collector.shutdown()
    if out is not None:
        buffer.dumps(out)
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", choices=["crystal", "random"], default="crystal")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    returns = train(given.memory, given.seed, given.steps, given.out)
    print(f"{given.memory}: {len(returns)} episodes, mean return of the last 20: {sum(returns[-20:]) / 20:.1f}")
