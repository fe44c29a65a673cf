"""DQN in one file, in the style of CleanRL, with a crystal memory. `# memory` marks what differs from a plain loop.

python examples/cleanrl_dqn.py --steps 8000 --seed 1
python examples/cleanrl_dqn.py --memory uniform        # the plain loop
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, Transition, UniformMemory
from crystalrl.integrations.anchors import advantage_pull
from crystalrl.losses import advantages


@dataclass
class Args:
    env: str = "CartPole-v1"
    envs: int = 4
    seed: int = 1
    steps: int = 10_000
    memory: Literal["crystal", "prioritized", "uniform"] = "crystal"
    capacity: int = 2_000
    learning_starts: int = 500
    batch_size: int = 128
    updates: int = 2
    """Gradient steps per step of all environments."""
    learning_rate: float = 1e-3
    gamma: float = 0.98
    target_rate: float = 0.01
    exploration: float = 0.3
    """Share of the run over which the probability of a random action falls from 1 to 0.05."""
    out: Path | None = None
    """Folder for the network and the memory."""


Memory = UniformMemory | PrioritizedMemory | CrystalMemory


def make_memory(args: Args, size: int, actions: int, params: CrystalParams | None) -> Memory:
    kinds = {"uniform": UniformMemory, "prioritized": PrioritizedMemory, "crystal": CrystalMemory}
    options = {"obs": (size,), "action": actions, "envs": args.envs, "gamma": args.gamma, "seed": args.seed}
    if args.memory == "crystal":
        params = params or CrystalParams()
        options |= {"params": params, "anchor": {"advantage": (actions,)} if params.uses_anchors else None}
    return kinds[args.memory](args.capacity, **options)


def td_errors(q_network: nn.Module, target_network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Values [B, A] and TD errors [B]. batch.discount is γ, or 0 where the episode terminated."""
    with torch.no_grad():
        target = batch.reward + batch.discount * target_network(batch.next_obs).amax(1)
    q = q_network(batch.obs)
    return q, target - q.gather(1, batch.action[:, None])[:, 0]


def loss_of(q: Tensor, error: Tensor, batch: Batch) -> Tensor:
    loss = (batch.weight * functional.huber_loss(error, torch.zeros_like(error), reduction="none")).mean()  # memory
    if batch.anchor is not None:  # memory
        loss = loss + advantage_pull(batch.anchor["advantage"], q)  # memory
    return loss


class Agent:
    def __init__(self, args: Args, size: int, actions: int) -> None:
        self.args = args
        self.q, self.target = (
            nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))
            for _ in range(2)
        )
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=args.learning_rate)

    def update(self, memory: Memory) -> None:
        """One gradient step."""
        batch = memory.sample(self.args.batch_size)
        q, error = td_errors(self.q, self.target, batch)
        self.optimizer.zero_grad()
        loss_of(q, error, batch).backward()
        self.optimizer.step()
        memory.update(batch, error)  # memory
        for slow, fast in zip(self.target.parameters(), self.q.parameters(), strict=True):
            slow.data.lerp_(fast.data, self.args.target_rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:  # memory: called when it consolidates
        q, error = td_errors(self.q, self.target, batch)
        return Evaluation(error, {"advantage": advantages(q)})


def train(args: Args, params: CrystalParams | None = None) -> list[float]:
    """Returns of the episodes in the order in which they ended; `params`: of a crystal memory, None for the default."""
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env)] * args.envs)
    size, actions = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)
    agent, memory = Agent(args, size, actions), make_memory(args, size, actions, params)
    returns: list[float] = []
    score, ended = np.zeros(args.envs), np.zeros(args.envs, dtype=bool)
    obs, _ = envs.reset(seed=args.seed)
    for step in range(0, args.steps, args.envs):
        epsilon = max(0.05, 1 - 0.95 * step / (args.exploration * args.steps))
        with torch.no_grad():
            action = agent.q(torch.as_tensor(obs)).argmax(1).numpy()
        action = np.where(rng.random(args.envs) < epsilon, rng.integers(actions, size=args.envs), action)
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        # Gymnasium resets in the step after the end of an episode: that step is not a transition.
        memory.add(Transition(obs, action, reward, next_obs, terminated, truncated), valid=~ended)
        score = np.where(ended, 0.0, score + reward)
        ended, obs = terminated | truncated, next_obs
        returns += score[ended].tolist()
        if step < args.learning_starts:
            continue
        for _ in range(args.updates):
            agent.update(memory)
        if memory.due:  # memory
            memory.consolidate(agent.evaluate)  # memory
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        torch.save(agent.q.state_dict(), args.out / "q_network.pt")
        memory.save(args.out / "memory.safetensors")
    return returns


if __name__ == "__main__":
    args = tyro.cli(Args)
    returns = train(args)
    print(f"{args.memory}: {len(returns)} episodes, mean return of the last 20: {np.mean(returns[-20:]):.1f}")
