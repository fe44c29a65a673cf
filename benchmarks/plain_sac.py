"""Soft actor-critic as one would write it for a single learner, without lanes: the reference that our SAC is timed
against.

Networks 3 × 256, batch 256, observations of 17 and actions of 6 numbers, the sizes of HalfCheetah.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from crystalrl.types import Batch

OBS, ACTION, WIDTH, DEPTH, BATCH = 17, 6, 256, 3, 256


def perceptron(inputs: int, outputs: int) -> nn.Sequential:
    widths = [inputs, *[WIDTH] * DEPTH]
    hidden = [part for i in range(DEPTH) for part in (nn.Linear(widths[i], widths[i + 1]), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, outputs))


class PlainSAC:
    """One learner made of PyTorch modules and optimisers."""

    def __init__(self, device: str) -> None:
        self.policy = perceptron(OBS, 2 * ACTION).to(device)
        self.critics = nn.ModuleList([perceptron(OBS + ACTION, 1) for _ in range(2)]).to(device)
        self.targets = nn.ModuleList([perceptron(OBS + ACTION, 1) for _ in range(2)]).to(device)
        self.targets.load_state_dict(self.critics.state_dict())
        self.log_alpha = torch.zeros(1, device=device, requires_grad=True)
        parts = (self.policy.parameters(), self.critics.parameters(), [self.log_alpha])
        self.policy_adam, self.critic_adam, self.alpha_adam = (torch.optim.Adam(part, lr=3e-4) for part in parts)

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.policy(obs).chunk(2, -1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        return torch.tanh(raw), (density - 2 * (math.log(2) - raw - softplus(-2 * raw))).sum(-1)

    def update(self, batch: Batch) -> Tensor:
        """The usual order: critics, then policy, then temperature, then the targets."""
        with torch.no_grad():
            action, log_prob = self.sample(batch.next_obs)
            value = self.twins(self.targets, batch.next_obs, action).amin(-1) - self.log_alpha.exp() * log_prob
            target = batch.reward + batch.discount * value
        td_error = target.unsqueeze(-1) - self.twins(self.critics, batch.obs, batch.action)
        descend(self.critic_adam, (batch.weight * 0.5 * td_error.square().sum(-1)).mean())
        self.critics.requires_grad_(False)
        action, log_prob = self.sample(batch.obs)
        value = self.twins(self.critics, batch.obs, action).amin(-1)
        descend(self.policy_adam, (self.log_alpha.detach().exp() * log_prob - value).mean())
        self.critics.requires_grad_(True)
        descend(self.alpha_adam, -(self.log_alpha * (log_prob.detach() - ACTION)).mean())
        with torch.no_grad():
            own = [p.data for p in self.targets.parameters()]
            torch._foreach_lerp_(own, [p.data for p in self.critics.parameters()], 0.005)
        return td_error.detach().abs().mean(-1)

    def twins(self, critics: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
        both = torch.cat([obs, action], -1)
        return torch.cat([critic(both) for critic in critics], -1)


def descend(adam: torch.optim.Adam, loss: Tensor) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def batches(device: str) -> tuple[Batch, Batch]:
    """A random batch, and the same with the axis of a single lane."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"obs": (OBS,), "next_obs": (OBS,), "action": (ACTION,), "reward": ()}
    columns = {name: torch.randn(BATCH, *size, generator=generator).to(device) for name, size in sizes.items()}
    ones = torch.ones(BATCH, device=device)
    columns |= {"action": columns["action"].tanh(), "discount": 0.99 * ones, "weight": ones, "index": ones.long()}
    return Batch(**columns), Batch(**{name: column[None] for name, column in columns.items()})
