"""Soft actor-critic (Haarnoja et al. 2018) with twin critics and automatic temperature, many lanes at once.

Critics, policy and temperature are updated together, from the gradients of one summed loss. The policy loss uses the
critics' values but does not backpropagate into the critics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from crystalrl.agents.base import (
    Agent,
    AgentParams,
    Hooks,
    Part,
    Spaces,
    Update,
    inputs_of,
    prefixed,
    require,
    require_tensor,
)
from crystalrl.agents.critics import TwinCritics, policy_network
from crystalrl.agents.exploration import action_size, epsilon_greedy, fixed_normals, normals
from crystalrl.agents.pop_art import PopArt
from crystalrl.lanes import lanewise
from crystalrl.losses import Penalty, anchor_losses, gaussian_distance, gaussian_divergence, weighted_mean, with_penalty
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation

LOG_STD = (-20.0, 2.0)
"""Range to which the policy's log σ is clamped."""


@dataclass(frozen=True)
class SACParams(AgentParams):
    """Settings of SAC; `learning_rate` may be one number per lane."""

    entropy: float = -1.0
    """Target entropy of the policy, per action dimension."""
    initial_temperature: float = 1.0
    task_temperature: bool = False
    """One temperature per task instead of one for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, {"initial_temperature": (self.initial_temperature > 0, "a number > 0")})


class SAC(Agent):
    """L learners in parallel: policy `theta` [L, P], `critics` and `target` [2L, P′], `log_alpha` [L, 1 or T]."""

    params: SACParams

    def __init__(self, spaces: Spaces, params: SACParams, streams: Streams) -> None:
        self.params, self.streams, self.size = params, streams, action_size(spaces)
        lanes = len(streams.seeds)
        self.scale = PopArt(lanes, spaces.tasks, streams.device) if params.pop_art else None
        self.network, self.twins = policy_network(spaces, params, 2), TwinCritics(spaces, params, self.scale)
        self.anchors, self.distances = {"policy": (2 * self.size,)}, {"policy": gaussian_divergence}
        self.theta = self.network.initial(streams).requires_grad_()
        self.critics = self.twins.initial(streams).requires_grad_()
        self.target = self.critics.detach().clone()
        temperatures = spaces.tasks if params.task_temperature else 1
        start = torch.full((len(self.theta), temperatures), math.log(params.initial_temperature), device=streams.device)
        self.log_alpha = start.requires_grad_()
        self.optimisers = {
            "policy": params.adam(self.theta),
            "critic": params.adam(self.target, copies=2),
            "alpha": params.adam(self.log_alpha),
        }
        policy, critic = self.optimisers["policy"], self.optimisers["critic"]
        self.parts = {
            "policy": Part(self.network, self.theta, policy, inputs_of, precision=_precision),
            "q": Part(self.twins.network, self.critics, critic, self.twins.inputs, self.target),
        }

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """The policy's mean actions [L, E, A] for observations [L, E, D]."""
        return lanewise(torch.tanh, self.network(self.theta, obs, context)[..., : self.size])

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions [L, E, A] of the policy; a uniform one with probability epsilon."""
        action, _ = squashed(self.policy(obs, context), normals(self.streams, obs, self.size))
        return epsilon_greedy(action, epsilon, 0, self.streams)

    def policy(self, obs: Tensor, context: Tensor | None) -> Tensor:
        """Mean and log σ before tanh, [L, B, 2A]."""
        mean, log_std = self.network(self.theta, obs, context).chunk(2, -1)
        return torch.cat([mean, log_std.clamp(*LOG_STD)], dim=-1)

    def _log_temperature(self, batch: Batch) -> Tensor:
        """log α, [L, 1] or [L, B]."""
        if not self.params.task_temperature:
            return self.log_alpha
        if batch.context is None:
            raise ValueError("task_temperature: wanted tasks whose id is known, got a batch without context")
        return self.log_alpha.gather(1, batch.context.to(torch.int64))

    @torch.no_grad()
    def td_target(self, batch: Batch, noise: Tensor, critics: Tensor | None = None) -> Tensor:
        """[L, B]: r + discount · (min Q(s′, a′) − α·log π(a′|s′)), a′ from the policy, Q from the target critics or
        those given."""
        next_obs = require_tensor(batch.next_obs)
        action, log_prob = squashed(self.policy(next_obs, batch.context), noise)
        value = self.twins(self.target if critics is None else critics, next_obs, action, batch.context).amin(-1)
        entropy = lanewise(torch.exp, self._log_temperature(batch)) * log_prob
        if self.scale is not None:
            entropy = entropy * self.scale.unit(entropy, batch.context)
        return batch.reward + batch.discount * (value - entropy)

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """The loss [L]: the sum of weighted TD loss, policy loss, temperature loss, anchor loss and the method's
        penalty; and the mean |TD error| of the twins [L, B].
        """
        obs = require_tensor(batch.obs)
        target = self.td_target(batch, normals(self.streams, obs, self.size)).unsqueeze(-1)
        q, policy = self.twins(self.critics, obs, batch.action, batch.context), self.policy(obs, batch.context)
        td_error = target - q
        if self.scale is not None:
            td_error = td_error / self.scale.unit(obs, batch.context).unsqueeze(-1)
        loss = weighted_mean(0.5 * td_error.square().sum(-1), batch.weight) + self._policy_loss(batch, obs, policy)
        if batch.anchor is not None:
            loss = loss + anchor_losses({"policy": policy}, batch.anchor, {"policy": gaussian_distance})
        loss = with_penalty(loss, method, {"policy": self.theta, "q": self.critics})
        return loss, td_error.detach().abs().mean(-1)

    def loss_of(self, batch: Batch, names: Sequence[str]) -> Tensor:
        return self.loss(batch)[0]

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        obs = require_tensor(batch.obs)
        q = self.twins(self.critics, obs, batch.action, batch.context)
        return {"q": q, "policy": self.policy(obs, batch.context)}

    def update(self, batch: Batch, method: Hooks | None = None) -> Update:
        """One gradient step of policy, critics and temperature per lane, then one of the target critics."""
        if self.scale is not None:
            self.scale.start(batch.reward, batch.context)
            target = self.td_target(batch, self._fixed_noise(require_tensor(batch.obs)))
            self.scale.observe(target, batch.context, self.twins.network, (self.critics, self.target))
        loss, td_error = self.loss(batch, method)
        parts = (self.theta, self.critics, self.log_alpha)
        policy, q, alpha = torch.autograd.grad(loss.sum(), parts)
        edited = self.edited(method, {"policy": policy, "q": q})
        gradients = (edited["policy"], edited["q"], alpha)
        for part, gradient, optimiser in zip(parts, gradients, self.optimisers.values(), strict=True):
            optimiser.step(part, gradient)
        with torch.no_grad():
            moves = self.optimisers["critic"].every(self.params.target_every)
            self.target.lerp_(self.critics, moves * self.params.target_rate)
        return Update(td_error, loss.detach())

    def _policy_loss(self, batch: Batch, obs: Tensor, policy: Tensor) -> Tensor:
        """[L]: α·log π − min Q for the policy, −log α·(log π + target entropy) for the temperature."""
        action, log_prob = squashed(policy, normals(self.streams, obs, self.size))
        value = self.twins(self.critics.detach(), obs, action, batch.context).amin(-1)
        if self.scale is not None:
            value = value / self.scale.unit(obs, batch.context)
        log_alpha = self._log_temperature(batch)
        entropy_gap = log_prob.detach() + self.params.entropy * self.size
        loss: Tensor = lanewise(torch.exp, log_alpha.detach()) * log_prob - value - log_alpha * entropy_gap
        return loss.mean(-1)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """Mean |TD error| of the twins [L, B], the policy [L, B, 2A] for its anchor, and what is at stake [L, B].

        Its noise depends only on the number of updates, so no state changes.
        """
        obs = require_tensor(batch.obs)
        target = self.td_target(batch, self._fixed_noise(obs), self.critics if self.params.errors == "online" else None)
        output = self.outputs(batch)
        error = (target.unsqueeze(-1) - output["q"]).abs().mean(-1)
        greedy = lanewise(torch.tanh, output["policy"][..., : self.size])
        best = self.twins(self.critics, obs, greedy, batch.context)
        stake = (best - output["q"]).mean(-1)
        if self.scale is not None:
            unit = self.scale.unit(obs, batch.context)
            error, stake = error / unit, stake / unit
        return Evaluation(error, {"policy": output["policy"]}, stake)

    def _fixed_noise(self, obs: Tensor) -> Tensor:
        """Standard normals that depend on the number of updates alone."""
        return fixed_normals(self.streams, self.optimisers["policy"].steps, obs, self.size)

    def tensors(self) -> dict[str, Tensor]:
        own = {"theta": self.theta, "critics": self.critics, "target": self.target, "log_alpha": self.log_alpha}
        own |= {} if self.scale is None else self.scale.tensors()
        for name, optimiser in self.optimisers.items():
            own |= prefixed(name, optimiser)
        return own


def _precision(policy: Tensor) -> Tensor:
    """1/σ of a Gaussian's mean, and √2, that of log σ, […, 2A]: the roots of their Fisher information."""
    log_std = policy.chunk(2, -1)[1]
    return torch.cat([lanewise(torch.exp, -log_std.clamp(*LOG_STD)), torch.full_like(log_std, math.sqrt(2.0))], dim=-1)


def squashed(policy: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [L, B, A] = tanh(mean + σ·noise) and their log-density [L, B]; policy [L, B, 2A]."""
    mean, log_std = policy.chunk(2, -1)
    raw = mean + lanewise(torch.exp, log_std) * noise
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    volume = 2 * (math.log(2) - raw - lanewise(softplus, -2 * raw))
    return lanewise(torch.tanh, raw), (density - volume).sum(-1)
