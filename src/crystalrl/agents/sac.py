"""Soft actor-critic (Haarnoja et al. 2018) with twin critics and automatic temperature, many lanes at once.

Critics, policy and temperature take their step together, each with its own gradient of one loss: the policy's part sees
the critics' values but does not teach them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from crystalrl.agents.base import Agent, AgentParams, Spaces, Update, plain, prefixed, refuse
from crystalrl.agents.critics import TwinCritics, policy_network
from crystalrl.agents.exploration import box, fixed_normals, mixed, normals
from crystalrl.agents.losses import Penalty, anchor_loss, gaussian_kl, weighted, with_penalty
from crystalrl.agents.networks import lanewise
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation

LOG_STD = (-20.0, 2.0)
"""Where log σ of the policy is held."""


@dataclass(frozen=True)
class SACParams(AgentParams):
    """Settings of the agent; `learning_rate` may be one number per lane."""

    entropy: float = -1.0
    """Entropy the policy should have, per action dimension."""
    initial_temperature: float = 1.0
    task_temperature: bool = False
    """One temperature for each task instead of one for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self, {"initial_temperature": (self.initial_temperature > 0, "a number > 0")})


class SAC(Agent):
    """L learners side by side: policy `theta` [L, P], `critics` and `target` [2L, P′], `log_alpha` [L, 1 or T]."""

    params: SACParams

    def __init__(self, spaces: Spaces, params: SACParams, streams: Streams) -> None:
        self.params, self.streams, self.size = params, streams, box(spaces)
        self.network, self.twins = policy_network(spaces, params, 2), TwinCritics(spaces, params)
        self.anchors = {"policy": (2 * self.size,), "q": (2,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.critics = self.twins.initial(streams).requires_grad_()
        self.target = self.critics.detach().clone()
        count = spaces.tasks if params.task_temperature else 1
        start = torch.full((len(self.theta), count), math.log(params.initial_temperature), device=streams.device)
        self.log_alpha = start.requires_grad_()
        self.optimisers = {
            "policy": params.adam(self.theta),
            "critic": params.adam(self.target, copies=2),
            "alpha": params.adam(self.log_alpha),
        }

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """The policy's mean actions [L, E, A] for observations [L, E, D]."""
        return lanewise(torch.tanh, self.network(self.theta, obs, context)[..., : self.size])

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions [L, E, A] of the policy; a uniform one with probability epsilon."""
        action, _ = squashed(self.policy(obs, context), normals(self.streams, obs, self.size))
        return mixed(action, epsilon, 0, self.streams)

    def policy(self, obs: Tensor, context: Tensor | None) -> Tensor:
        """Mean and log σ before tanh, [L, B, 2A]."""
        mean, log_std = self.network(self.theta, obs, context).chunk(2, -1)
        return torch.cat([mean, log_std.clamp(*LOG_STD)], dim=-1)

    def _temperature(self, batch: Batch) -> Tensor:
        """log α, [L, 1] or [L, B]."""
        if not self.params.task_temperature:
            return self.log_alpha
        if batch.context is None:
            raise ValueError("task_temperature: wanted tasks whose id is known, got a batch without context")
        return self.log_alpha.gather(1, batch.context.to(torch.int64))

    @torch.no_grad()
    def td_target(self, batch: Batch, noise: Tensor) -> Tensor:
        """[L, B]: r + discount · (min Q_target(s′, a′) − α·log π(a′|s′)), a′ from the policy."""
        then = plain(batch.next_obs)
        action, log_prob = squashed(self.policy(then, batch.context), noise)
        value = self.twins(self.target, then, action, batch.context).amin(-1)
        return batch.reward + batch.discount * (value - lanewise(torch.exp, self._temperature(batch)) * log_prob)

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """What `update` lowers [L]: weighted TD loss, policy loss, temperature loss, anchor loss, the method's penalty;
        and the mean |TD error| of the twins [L, B].
        """
        obs = plain(batch.obs)
        goal = self.td_target(batch, normals(self.streams, obs, self.size)).unsqueeze(-1)
        q, policy = self.twins(self.critics, obs, batch.action, batch.context), self.policy(obs, batch.context)
        td_error = goal - q
        loss = weighted(0.5 * td_error.square().sum(-1), batch.weight) + self._policy_loss(batch, obs, policy)
        if batch.anchor is not None:
            loss = loss + anchor_loss({"q": q, "policy": policy}, batch.anchor, {"policy": gaussian_kl})
        return with_penalty(loss, method, self.theta), td_error.detach().abs().mean(-1)

    def update(self, batch: Batch, method: Penalty | None = None) -> Update:
        """One gradient step per lane, of everything at once."""
        loss, td_error = self.loss(batch, method)
        parts = (self.theta, self.critics, self.log_alpha)
        gradients = torch.autograd.grad(loss.sum(), parts)
        for part, gradient, optimiser in zip(parts, gradients, self.optimisers.values(), strict=True):
            optimiser.step(part, gradient)
        with torch.no_grad():
            self.target.lerp_(self.critics, self.params.target_rate)
        return Update(td_error, loss.detach())

    def _policy_loss(self, batch: Batch, obs: Tensor, policy: Tensor) -> Tensor:
        """[L]: α·log π − min Q for the policy, −log α·(log π + target entropy) for the temperature."""
        action, log_prob = squashed(policy, normals(self.streams, obs, self.size))
        value = self.twins(self.critics.detach(), obs, action, batch.context).amin(-1)
        log_alpha = self._temperature(batch)
        surprise = log_prob.detach() + self.params.entropy * self.size
        loss: Tensor = lanewise(torch.exp, log_alpha.detach()) * log_prob - value - log_alpha * surprise
        return loss.mean(-1)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """Mean |TD error| of the twins [L, B], and what can be anchored: q [L, B, 2], policy [L, B, 2A].

        Its noise depends on the number of updates alone, so asking changes nothing.
        """
        obs = plain(batch.obs)
        noise = fixed_normals(self.streams, self.optimisers["policy"].steps, obs, self.size)
        goal = self.td_target(batch, noise)
        q = self.twins(self.critics, obs, batch.action, batch.context)
        error = (goal.unsqueeze(-1) - q).abs().mean(-1)
        return Evaluation(error, {"q": q, "policy": self.policy(obs, batch.context)})

    def tensors(self) -> dict[str, Tensor]:
        own = {"theta": self.theta, "critics": self.critics, "target": self.target, "log_alpha": self.log_alpha}
        for name, optimiser in self.optimisers.items():
            own |= prefixed(name, optimiser)
        return own


def squashed(policy: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [L, B, A] = tanh(mean + σ·noise) and their log-density [L, B]; policy [L, B, 2A]."""
    mean, log_std = policy.chunk(2, -1)
    raw = mean + lanewise(torch.exp, log_std) * noise
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    volume = 2 * (math.log(2) - raw - lanewise(softplus, -2 * raw))
    return lanewise(torch.tanh, raw), (density - volume).sum(-1)
