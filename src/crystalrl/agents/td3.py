"""Twin delayed deterministic policy gradient (Fujimoto et al. 2018), many lanes at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, AgentParams, Spaces, Update, plain, prefixed, refuse
from crystalrl.agents.critics import TwinCritics, policy_network
from crystalrl.agents.exploration import box, fixed_normals, mixed, normals
from crystalrl.agents.losses import Penalty, anchor_loss, weighted, with_penalty
from crystalrl.agents.networks import lanewise
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class TD3Params(AgentParams):
    """Settings of the agent; `learning_rate` may be one number per lane."""

    noise: float = 0.1
    """Standard deviation of what is added to actions while exploring."""
    target_noise: float = 0.2
    """The same, of the next action that a TD target values."""
    target_clip: float = 0.5
    """Largest such noise."""
    delay: int = 2
    """Updates of the critics between two of the policy and the target networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = {name: (getattr(self, name) >= 0, "a number ≥ 0") for name in ("noise", "target_noise", "target_clip")}
        refuse(self, {**wanted, "delay": (self.delay >= 1, "a whole number ≥ 1")})


class TD3(Agent):
    """L learners side by side: policy `theta` [L, P] and `critics` [2L, P′], each with its target."""

    params: TD3Params

    def __init__(self, spaces: Spaces, params: TD3Params, streams: Streams) -> None:
        self.params, self.streams, self.size = params, streams, box(spaces)
        self.network, self.twins = policy_network(spaces, params, 1), TwinCritics(spaces, params)
        self.anchors = {"policy": (self.size,), "q": (2,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.critics = self.twins.initial(streams).requires_grad_()
        self.theta_target, self.critics_target = self.theta.detach().clone(), self.critics.detach().clone()
        self.optimisers = {"policy": params.adam(self.theta), "critic": params.adam(self.critics, copies=2)}
        self.branches = streams.device.type == "cpu"
        """Whether updates that leave the policy alone skip it; a graph on a device computes it and does not move."""

    def policy(self, theta: Tensor, obs: Tensor, context: Tensor | None) -> Tensor:
        """Actions [L, B, A] in [−1, 1]."""
        return lanewise(torch.tanh, self.network(theta, obs, context))

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """The policy's actions [L, E, A] for observations [L, E, D]."""
        return self.policy(self.theta, obs, context)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions [L, E, A] of the policy with noise; a uniform one with probability epsilon."""
        noise = self.params.noise * normals(self.streams, obs, self.size)
        return mixed((self.greedy(obs, context) + noise).clamp(-1, 1), epsilon, 0, self.streams)

    @torch.no_grad()
    def td_target(self, batch: Batch, noise: Tensor) -> Tensor:
        """[L, B]: r + discount · min Q_target(s′, a′), a′ the target policy's action with clipped noise."""
        then, clip = plain(batch.next_obs), self.params.target_clip
        smooth = (self.params.target_noise * noise).clamp(-clip, clip)
        action = (self.policy(self.theta_target, then, batch.context) + smooth).clamp(-1, 1)
        value = self.twins(self.critics_target, then, action, batch.context).amin(-1)
        return batch.reward + batch.discount * value

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the critics lower [L]: weighted TD loss + anchor loss; and the mean |TD error| of the twins [L, B]."""
        obs = plain(batch.obs)
        goal = self.td_target(batch, normals(self.streams, obs, self.size)).unsqueeze(-1)
        q = self.twins(self.critics, obs, batch.action, batch.context)
        td_error = goal - q
        loss = weighted(0.5 * td_error.square().sum(-1), batch.weight)
        if batch.anchor is not None and "q" in batch.anchor:
            loss = loss + anchor_loss({"q": q}, {"q": batch.anchor["q"]})
        return loss, td_error.detach().abs().mean(-1)

    def policy_loss(self, batch: Batch, method: Penalty | None = None) -> Tensor:
        """What the policy lowers [L]: −Q₁ of its actions + anchor loss + the method's penalty."""
        obs = plain(batch.obs)
        action = self.policy(self.theta, obs, batch.context)
        loss = -self.twins(self.critics.detach(), obs, action, batch.context)[..., 0].mean(-1)
        if batch.anchor is not None and "policy" in batch.anchor:
            loss = loss + anchor_loss({"policy": action}, {"policy": batch.anchor["policy"]})
        return with_penalty(loss, method, self.theta)

    def update(self, batch: Batch, method: Penalty | None = None) -> Update:
        """One gradient step of the critics per lane; every `delay` of them one of the policy and the targets."""
        loss, td_error = self.loss(batch)
        (gradient,) = torch.autograd.grad(loss.sum(), self.critics)
        self.optimisers["critic"].step(self.critics, gradient)
        now = self.optimisers["critic"].steps % self.params.delay == 0
        if not self.branches or bool(now):
            self._follow(batch, method, now.to(torch.float32))
        return Update(td_error, loss.detach())

    def _follow(self, batch: Batch, method: Penalty | None, now: Tensor) -> None:
        """Move the policy uphill and the targets after, where `now` is 1."""
        (gradient,) = torch.autograd.grad(self.policy_loss(batch, method).sum(), self.theta)
        self.optimisers["policy"].step(self.theta, gradient, now)
        with torch.no_grad():
            self.critics_target.lerp_(self.critics, now * self.params.target_rate)
            self.theta_target.lerp_(self.theta, now * self.params.target_rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """Mean |TD error| of the twins [L, B], and what can be anchored: q [L, B, 2], policy [L, B, A].

        Its noise depends on the number of updates alone, so asking changes nothing.
        """
        obs = plain(batch.obs)
        noise = fixed_normals(self.streams, self.optimisers["critic"].steps, obs, self.size)
        q = self.twins(self.critics, obs, batch.action, batch.context)
        error = (self.td_target(batch, noise).unsqueeze(-1) - q).abs().mean(-1)
        return Evaluation(error, {"q": q, "policy": self.greedy(obs, batch.context)})

    def tensors(self) -> dict[str, Tensor]:
        own = {
            "theta": self.theta,
            "critics": self.critics,
            "theta_target": self.theta_target,
            "critics_target": self.critics_target,
        }
        for name, optimiser in self.optimisers.items():
            own |= prefixed(name, optimiser)
        return own
