"""Deep Q-learning (Mnih et al. 2015) with double Q-learning and optional dueling heads, many lanes at once."""

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
from crystalrl.agents.exploration import action_count, epsilon_greedy
from crystalrl.agents.networks import LaneNetwork
from crystalrl.agents.optimiser import LaneAdam, clipped
from crystalrl.agents.pop_art import PopArt, in_units
from crystalrl.lanes import PerLane
from crystalrl.losses import Penalty, advantages, anchor_losses, huber, weighted_mean, with_penalty
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class ValueParams(AgentParams):
    """Settings of agents that learn values of discrete actions."""

    width: int = 128
    depth: int = 2
    clip: float = 10.0
    """Largest norm of a lane's gradient."""
    double: bool = True
    """The online network selects the next action, the target network evaluates it (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate heads for the value and the advantages (Wang et al. 2016)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, {"clip": (self.clip > 0, "a number > 0")})


@dataclass(frozen=True)
class DQNParams(ValueParams):
    """Settings of DQN; `learning_rate` may be one number per lane."""

    learning_rate: PerLane = 1e-3
    gamma: float = 0.95
    target_rate: float = 0.01


def value_network(spaces: Spaces, params: ValueParams, atoms: int = 1, noisy: bool = False) -> LaneNetwork:
    """From observations to a value, or `atoms` logits, per discrete action."""
    return LaneNetwork(
        spaces.obs,
        [params.width] * params.depth,
        action_count(spaces),
        dueling=params.dueling,
        layer_norm=params.layer_norm,
        heads=params.value_heads(spaces),
        atoms=atoms,
        noisy=noisy,
        columns=params.columns,
    )


class ValueAgent(Agent):
    """A Q network `theta` and a target network `target`, both [L, P], trained on one loss."""

    params: ValueParams
    target: Tensor
    optimiser: LaneAdam

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """The loss [L], and TD errors [L, B]."""
        raise NotImplementedError

    def loss_of(self, batch: Batch, names: Sequence[str]) -> Tensor:
        return self.loss(batch)[0]

    def update(self, batch: Batch, method: Hooks | None = None) -> Update:
        """One gradient step per lane; every `target_every` of them, one step of the target network."""
        loss, td_error = self.loss(batch, method)
        (gradient,) = torch.autograd.grad(loss.sum(), self.theta)
        gradient, norm = clipped(self.edited(method, {"q": gradient})["q"], self.params.clip)
        self.optimiser.step(self.theta, gradient)
        with torch.no_grad():
            moves = self.optimiser.every(self.params.target_every)
            self.target.lerp_(self.theta, moves * self.params.target_rate)
        return Update(td_error.detach(), loss.detach(), norm)

    def _only_part(self) -> dict[str, Part]:
        return {"q": Part(self.network, self.theta, self.optimiser, inputs_of, self.target)}

    def tensors(self) -> dict[str, Tensor]:
        return {"theta": self.theta, "target": self.target, **prefixed("optimiser", self.optimiser)}


class DQN(ValueAgent):
    """L learners in parallel: Q network `theta` and target network `target`, both [L, P]."""

    params: DQNParams

    def __init__(self, spaces: Spaces, params: DQNParams, streams: Streams) -> None:
        self.params, self.streams, self.actions = params, streams, action_count(spaces)
        self.network = value_network(spaces, params)
        self.anchors = {"advantage": (self.actions,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.target = self.theta.detach().clone()
        self.optimiser = params.adam(self.target)
        self.parts = self._only_part()
        self.scale = PopArt(len(self.theta), spaces.tasks, streams.device) if params.pop_art else None

    def values(self, theta: Tensor, obs: Tensor, context: Tensor | None) -> Tensor:
        """Q values [L, B, A]."""
        q = self.network(theta, obs, context)
        return q if self.scale is None else self.scale.values(q, context)

    def update(self, batch: Batch, method: Hooks | None = None) -> Update:
        """One gradient step per lane; every `target_every` of them, one step of the target network."""
        if self.scale is not None:
            self.scale.start(batch.reward, batch.context)
            self.scale.observe(self.td_target(batch), batch.context, self.network, (self.theta, self.target))
        return super().update(batch, method)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | ({} if self.scale is None else self.scale.tensors())

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """Best actions int64[L, E] for observations [L, E, …]."""
        return self.network(self.theta, obs, context).argmax(-1)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions int64[L, E]: random with probability epsilon (a tensor that broadcasts to [L, E]), else greedy."""
        return epsilon_greedy(self.greedy(obs, context), epsilon, self.actions, self.streams)

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """The loss [L]: weighted TD loss + anchor loss + the method's penalty; and TD errors [L, B]."""
        q, td_error = self._td_errors(batch)
        anchors = batch.anchor
        if self.scale is not None:
            unit = self.scale.unit(td_error, batch.context)
            q, td_error = q / unit.unsqueeze(-1), td_error / unit
            anchors = anchors and in_units(anchors, unit)
        error = huber(td_error) if self.scale is None else 0.5 * td_error.square()  # a rare reward is many units large
        loss = weighted_mean(error, batch.weight)
        if anchors is not None:
            loss = loss + anchor_losses({"q": q, "advantage": advantages(q)}, anchors)
        return with_penalty(loss, method, {"q": self.theta}), td_error

    def _td_errors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Q values [L, B, A] and TD errors [L, B]."""
        q = self.values(self.theta, require_tensor(batch.obs), batch.context)
        taken = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        return q, self.td_target(batch) - taken

    @torch.no_grad()
    def td_target(self, batch: Batch) -> Tensor:
        """[L, B]: r + discount · Q_target(s′, argmax Q_online(s′))."""
        next_obs = require_tensor(batch.next_obs)
        future = self.values(self.target, next_obs, batch.context)
        choice = self.values(self.theta, next_obs, batch.context) if self.params.double else future
        best = future.gather(-1, choice.argmax(-1, keepdim=True)).squeeze(-1)
        return batch.reward + batch.discount * best

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        return {"q": self.values(self.theta, require_tensor(batch.obs), batch.context)}

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] and what can be anchored, {"advantage": [L, B, A]}."""
        q, td_error = self._td_errors(batch)
        if self.params.errors == "online":
            future = self.values(self.theta, require_tensor(batch.next_obs), batch.context).amax(-1)
            taken = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
            td_error = batch.reward + batch.discount * future - taken
        if self.scale is not None:
            td_error = td_error / self.scale.unit(td_error, batch.context)
        return Evaluation(td_error, {"advantage": advantages(q)})
