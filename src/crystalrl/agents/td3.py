"""Twin delayed deterministic policy gradient (Fujimoto et al. 2018), many lanes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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
from crystalrl.losses import Penalty, anchor_loss, weighted_mean, with_penalty
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class TD3Params(AgentParams):
    """Settings of TD3; `learning_rate` may be one number per lane."""

    noise: float = 0.1
    """Standard deviation of the noise that is added to actions while exploring."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the next action in a TD target."""
    target_clip: float = 0.5
    """Largest magnitude of the noise on the next action."""
    action_l2: float = 0.0
    """Factor of the mean square of the policy's output before tanh in its loss. It keeps tanh from saturating, after
    which a policy would no longer learn (Andrychowicz et al. 2017 use it with DDPG)."""
    delay: int = 2
    """Updates of the critics per update of the policy and the target networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            name: (getattr(self, name) >= 0, "a number ≥ 0")
            for name in ("noise", "target_noise", "target_clip", "action_l2")
        }
        require(self, {**rules, "delay": (self.delay >= 1, "a whole number ≥ 1")})


class TD3(Agent):
    """L learners in parallel: policy `theta` [L, P] and `critics` [2L, P′], each with its target network."""

    params: TD3Params

    def __init__(self, spaces: Spaces, params: TD3Params, streams: Streams) -> None:
        self.params, self.streams, self.size = params, streams, action_size(spaces)
        lanes = len(streams.seeds)
        self.scale = PopArt(lanes, spaces.tasks, streams.device) if params.pop_art else None
        self.network, self.twins = policy_network(spaces, params, 1), TwinCritics(spaces, params, self.scale)
        self.anchors = {"policy": (self.size,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.critics = self.twins.initial(streams).requires_grad_()
        self.theta_target, self.critics_target = self.theta.detach().clone(), self.critics.detach().clone()
        self.optimisers = {"policy": params.adam(self.theta), "critic": params.adam(self.critics, copies=2)}
        policy, critic = self.optimisers["policy"], self.optimisers["critic"]
        self.parts = {
            "policy": Part(self.network, self.theta, policy, inputs_of, self.theta_target),
            "q": Part(self.twins.network, self.critics, critic, self.twins.inputs, self.critics_target),
        }
        self.branches = streams.device.type == "cpu"
        """Whether updates that do not move the policy skip its gradient; a CUDA graph cannot branch."""

    def policy(self, theta: Tensor, obs: Tensor, context: Tensor | None) -> Tensor:
        """Actions [L, B, A] in [−1, 1]."""
        return lanewise(torch.tanh, self.network(theta, obs, context))

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """The policy's actions [L, E, A] for observations [L, E, D]."""
        return self.policy(self.theta, obs, context)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """The policy's actions [L, E, A] plus noise; uniform with probability epsilon."""
        noise = self.params.noise * normals(self.streams, obs, self.size)
        return epsilon_greedy((self.greedy(obs, context) + noise).clamp(-1, 1), epsilon, 0, self.streams)

    @torch.no_grad()
    def td_target(self, batch: Batch, noise: Tensor, online: bool = False) -> Tensor:
        """[L, B]: r + discount · min Q(s′, a′), a′ the policy's action with clipped noise; Q and policy are the target
        networks, or the online ones."""
        policy, critics = (self.theta, self.critics) if online else (self.theta_target, self.critics_target)
        next_obs, clip = require_tensor(batch.next_obs), self.params.target_clip
        clipped_noise = (self.params.target_noise * noise).clamp(-clip, clip)
        action = (self.policy(policy, next_obs, batch.context) + clipped_noise).clamp(-1, 1)
        value = self.twins(critics, next_obs, action, batch.context).amin(-1)
        return batch.reward + batch.discount * value

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """Loss of the critics [L], weighted TD loss + the method's penalty; and the twins' mean |TD error| [L, B]."""
        obs = require_tensor(batch.obs)
        target = self.td_target(batch, normals(self.streams, obs, self.size)).unsqueeze(-1)
        q = self.twins(self.critics, obs, batch.action, batch.context)
        td_error = target - q
        if self.scale is not None:
            td_error = td_error / self.scale.unit(obs, batch.context).unsqueeze(-1)
        loss = weighted_mean(0.5 * td_error.square().sum(-1), batch.weight)
        return with_penalty(loss, method, {"q": self.critics}), td_error.detach().abs().mean(-1)

    def policy_loss(self, batch: Batch, method: Penalty | None = None) -> Tensor:
        """Loss of the policy [L]: −Q₁ of its actions, penalty on large outputs, anchor loss, the method's penalty."""
        obs = require_tensor(batch.obs)
        raw = self.network(self.theta, obs, batch.context)
        action = lanewise(torch.tanh, raw)
        value = self.twins(self.critics.detach(), obs, action, batch.context)[..., 0]
        loss = -(value if self.scale is None else value / self.scale.unit(obs, batch.context)).mean(-1)
        if self.params.action_l2:
            loss = loss + self.params.action_l2 * raw.square().mean((-1, -2))
        if batch.anchor is not None:
            loss = loss + anchor_loss(action, batch.anchor["policy"])
        return with_penalty(loss, method, {"policy": self.theta})

    def loss_of(self, batch: Batch, names: Sequence[str]) -> Tensor:
        losses = {"q": lambda: self.loss(batch)[0], "policy": lambda: self.policy_loss(batch)}
        return torch.stack([losses[name]() for name in names]).sum(0)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        obs = require_tensor(batch.obs)
        q = self.twins(self.critics, obs, batch.action, batch.context)
        return {"q": q, "policy": self.policy(self.theta, obs, batch.context)}

    def update(self, batch: Batch, method: Hooks | None = None) -> Update:
        """One gradient step of the critics per lane; every `delay` of them, one of policy and target networks."""
        if self.scale is not None:
            self.scale.start(batch.reward, batch.context)
            target = self.td_target(batch, self._fixed_noise(require_tensor(batch.obs)))
            self.scale.observe(target, batch.context, self.twins.network, (self.critics, self.critics_target))
        loss, td_error = self.loss(batch, method)
        (gradient,) = torch.autograd.grad(loss.sum(), self.critics)
        self.optimisers["critic"].step(self.critics, self.edited(method, {"q": gradient})["q"])
        now = self.optimisers["critic"].steps % self.params.delay == 0
        if not self.branches or bool(now):
            self._update_policy(batch, method, now.to(torch.float32))
        return Update(td_error, loss.detach())

    def _update_policy(self, batch: Batch, method: Hooks | None, now: Tensor) -> None:
        """One step of the policy and the target networks, if the scalar `now` is 1; none if it is 0."""
        (gradient,) = torch.autograd.grad(self.policy_loss(batch, method).sum(), self.theta)
        gradient = self.edited(method, {"policy": gradient})["policy"]
        self.optimisers["policy"].step(self.theta, gradient, now)
        with torch.no_grad():
            step = now * self.optimisers["policy"].every(self.params.target_every) * self.params.target_rate
            self.critics_target.lerp_(self.critics, step)
            self.theta_target.lerp_(self.theta, step)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """Mean |TD error| of the twins [L, B], the policy [L, B, A] for its anchor, and what is at stake [L, B].

        Its noise depends only on the number of updates, so no state changes.
        """
        obs = require_tensor(batch.obs)
        target = self.td_target(batch, self._fixed_noise(obs), online=self.params.errors == "online")
        output = self.outputs(batch)
        error = (target.unsqueeze(-1) - output["q"]).abs().mean(-1)
        stake = (self.twins(self.critics, obs, output["policy"], batch.context) - output["q"]).mean(-1)
        if self.scale is not None:
            unit = self.scale.unit(obs, batch.context)
            error, stake = error / unit, stake / unit
        return Evaluation(error, {"policy": output["policy"]}, stake)

    def _fixed_noise(self, obs: Tensor) -> Tensor:
        """Standard normals that depend on the number of updates alone."""
        return fixed_normals(self.streams, self.optimisers["critic"].steps, obs, self.size)

    def tensors(self) -> dict[str, Tensor]:
        own = {
            "theta": self.theta,
            "critics": self.critics,
            "theta_target": self.theta_target,
            "critics_target": self.critics_target,
        }
        own |= {} if self.scale is None else self.scale.tensors()
        for name, optimiser in self.optimisers.items():
            own |= prefixed(name, optimiser)
        return own
