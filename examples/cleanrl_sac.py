"""SAC in one file, in the style of CleanRL, with a crystal memory. `# memory` marks what differs from a plain loop.

python examples/cleanrl_sac.py --steps 5000 --seed 1
python examples/cleanrl_sac.py --memory uniform        # the plain loop
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import Tensor, nn

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, Transition, UniformMemory
from crystalrl.integrations.anchors import gaussian_pull


@dataclass
class Args:
    env: str = "Pendulum-v1"
    seed: int = 1
    steps: int = 5_000
    memory: Literal["crystal", "prioritized", "uniform"] = "crystal"
    capacity: int = 2_000
    learning_starts: int = 500
    batch_size: int = 64
    learning_rate: float = 2e-3
    gamma: float = 0.95
    target_rate: float = 0.02
    out: Path | None = None  # folder for the networks and the memory


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


class Agent(nn.Module):
    def __init__(self, args: Args, env: gym.Env) -> None:
        super().__init__()
        obs, self.actions = env.observation_space.shape[0], env.action_space.shape[0]
        self.actor = network(obs, 2 * self.actions)
        self.critics, self.targets = (
            nn.ModuleList([network(obs + self.actions, 1) for _ in range(2)]) for _ in range(2)
        )
        self.targets.load_state_dict(self.critics.state_dict())
        self.log_temperature = nn.Parameter(torch.zeros(1))
        self.args, self.scale = args, torch.as_tensor(env.action_space.high)
        self.actor_optimizer = torch.optim.Adam([*self.actor.parameters(), self.log_temperature], args.learning_rate)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), args.learning_rate)

    def policy(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log σ [B, A] before tanh."""
        mean, log_std = self.actor(obs).chunk(2, -1)
        return mean, -5 + 3.5 * (torch.tanh(log_std) + 1)

    def act(self, mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] and their log-probabilities [B]."""
        normal = torch.distributions.Normal(mean, log_std.exp())
        raw = normal.rsample()
        squashed = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(self.scale * (1 - squashed**2) + 1e-6)
        return squashed * self.scale, log_prob.sum(-1)

    def q(self, critics: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
        return torch.cat([critic(torch.cat([obs, action], -1)) for critic in critics], -1)

    def td_errors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Values [B, 2] and TD errors [B, 2]. batch.discount is γ, or 0 where the episode terminated."""
        with torch.no_grad():
            action, log_prob = self.act(*self.policy(batch.next_obs))
            value = self.q(self.targets, batch.next_obs, action).amin(-1) - self.log_temperature.exp() * log_prob
            target = batch.reward + batch.discount * value
        q = self.q(self.critics, batch.obs, batch.action)
        return q, target[:, None] - q

    def update(self, memory: Any) -> None:
        batch = memory.sample(self.args.batch_size)
        _, error = self.td_errors(batch)
        critic_loss = (batch.weight * 0.5 * (error**2).sum(1)).mean()  # memory: the weight
        mean, log_std = self.policy(batch.obs)
        new_action, log_prob = self.act(mean, log_std)
        temperature, value = self.log_temperature.exp(), self.q(self.critics, batch.obs, new_action).amin(-1)
        actor_loss = (temperature.detach() * log_prob - value).mean()
        actor_loss = actor_loss - (temperature * (log_prob.detach() - self.actions)).mean()
        if batch.anchor is not None:  # memory
            actor_loss = actor_loss + gaussian_pull(batch.anchor["policy"], mean, log_std)  # memory
        for optimizer, loss in ((self.actor_optimizer, actor_loss), (self.critic_optimizer, critic_loss)):
            optimizer.zero_grad()  # the actor first: its loss also reaches the critics, cleared here
            loss.backward()
            optimizer.step()
        memory.update(batch, error.abs().mean(1))  # memory
        for slow, fast in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
            slow.data.lerp_(fast.data, self.args.target_rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:  # memory: called when it consolidates
        q, error = self.td_errors(batch)
        mean, log_std = self.policy(batch.obs)
        stake = self.q(self.critics, batch.obs, mean.tanh() * self.scale) - q
        return Evaluation(error.abs().mean(1), {"policy": torch.cat([mean, log_std], -1)}, stake.mean(1))


def make_memory(args: Args, env: gym.Env, params: CrystalParams | None) -> Any:
    kinds = {"uniform": UniformMemory, "prioritized": PrioritizedMemory, "crystal": CrystalMemory}
    options = {"obs": env.observation_space.shape, "action": env.action_space.shape, "gamma": args.gamma}
    if args.memory == "crystal":
        params, policy = params or CrystalParams(), {"policy": (2 * env.action_space.shape[0],)}
        options |= {"params": params, "anchor": policy if params.uses_anchors else None}
    return kinds[args.memory](args.capacity, seed=args.seed, **options)


def train(args: Args, params: CrystalParams | None = None) -> list[float]:
    """Returns of the episodes; `params`: of a crystal memory, None for the default."""
    torch.manual_seed(args.seed)
    env = gym.make(args.env)
    env.action_space.seed(args.seed)
    agent, memory = Agent(args, env), make_memory(args, env, params)
    returns, score = [], 0.0
    obs, _ = env.reset(seed=args.seed)
    for step in range(args.steps):
        action = env.action_space.sample()
        if step >= args.learning_starts:
            with torch.no_grad():
                action = agent.act(*agent.policy(torch.as_tensor(obs)))[0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.add(Transition(obs, action, reward, next_obs, terminated, truncated))
        score, obs = score + float(reward), next_obs
        if terminated or truncated:
            returns, score, (obs, _) = [*returns, score], 0.0, env.reset()
        if step < args.learning_starts:
            continue
        agent.update(memory)
        if memory.due:  # memory
            memory.consolidate(agent.evaluate)  # memory
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        torch.save(agent.state_dict(), args.out / "agent.pt")
        memory.save(args.out / "memory.safetensors")
    return returns


if __name__ == "__main__":
    args = tyro.cli(Args)
    returns = train(args)
    print(f"{args.memory}: {len(returns)} episodes, mean return of the last 5: {np.mean(returns[-5:]):.1f}")
