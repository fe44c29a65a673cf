"""Deep Q-learning (Mnih et al. 2015) with double Q and optional dueling heads, many lanes at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, AgentParams, Spaces, Update, plain, prefixed, refuse
from crystalrl.agents.exploring import discrete, mixed
from crystalrl.agents.losses import Penalty, anchor_loss, huber, weighted, with_penalty
from crystalrl.agents.networks import LaneNetwork
from crystalrl.agents.optimiser import PerLane, clipped
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class DQNParams(AgentParams):
    """Settings of the agent; `learning_rate` may be one number per lane."""

    width: int = 128
    depth: int = 2
    learning_rate: PerLane = 1e-3
    gamma: float = 0.95
    target_rate: float = 0.01
    target_every: int = 1
    """Updates between two moves of the target network."""
    clip: float = 10.0
    """Largest norm of a lane's gradient."""
    double: bool = True
    """The online network chooses the next action, the target network values it (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate heads for the value and the advantages (Wang et al. 2016)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            self,
            {
                "target_every": (self.target_every >= 1, "a whole number ≥ 1"),
                "clip": (self.clip > 0, "a number > 0"),
            },
        )


class DQN(Agent):
    """L learners side by side. Invariant: `theta`, `target` and the optimiser change in place, never their identity."""

    params: DQNParams

    def __init__(self, spaces: Spaces, params: DQNParams, streams: Streams) -> None:
        self.params, self.actions, self.streams = params, discrete(spaces), streams
        self.network = LaneNetwork(
            spaces.obs,
            [params.width] * params.depth,
            self.actions,
            dueling=params.dueling,
            layer_norm=params.layer_norm,
            heads=spaces.tasks if params.multi_head else 1,
        )
        self.anchors = {"q": (self.actions,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.target = self.theta.detach().clone()
        self.optimiser = params.adam(self.target)

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """Best actions int64[L, E] for observations [L, E, …]."""
        return self.network(self.theta, obs, context).argmax(-1)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions int64[L, E]: random with probability epsilon (a tensor that broadcasts to [L, E]), else greedy."""
        return mixed(self.greedy(obs, context), epsilon, self.actions, self.streams)

    def td_target(self, batch: Batch) -> Tensor:
        """[L, B]: r + discount · Q_target(s′, argmax Q_online(s′))."""
        with torch.no_grad():
            then = plain(batch.next_obs)
            future = self.network(self.target, then, batch.context)
            choice = self.network(self.theta, then, batch.context) if self.params.double else future
            best = future.gather(-1, choice.argmax(-1, keepdim=True)).squeeze(-1)
            return batch.reward + batch.discount * best

    def _judge(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Q values [L, B, A] and TD errors [L, B]."""
        q = self.network(self.theta, plain(batch.obs), batch.context)
        taken = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        return q, self.td_target(batch) - taken

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """What `update` lowers [L]: weighted TD loss + anchor loss + the method's penalty; and TD errors [L, B]."""
        q, td_error = self._judge(batch)
        loss = weighted(huber(td_error), batch.weight)
        if batch.anchor is not None:
            loss = loss + anchor_loss({"q": q}, batch.anchor)
        return with_penalty(loss, method, self.theta), td_error

    def update(self, batch: Batch, method: Penalty | None = None) -> Update:
        """One gradient step per lane."""
        loss, td_error = self.loss(batch, method)
        (gradient,) = torch.autograd.grad(loss.sum(), self.theta)
        gradient, norm = clipped(gradient, self.params.clip)
        self.optimiser.step(self.theta, gradient)
        self._move_target()
        return Update(td_error.detach(), loss.detach(), norm)

    @torch.no_grad()
    def _move_target(self) -> None:
        moves = (self.optimiser.steps % self.params.target_every == 0).to(torch.float32)
        self.target.lerp_(self.theta, moves * self.params.target_rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] and the outputs that can be anchored, {"q": [L, B, A]}."""
        q, td_error = self._judge(batch)
        return Evaluation(td_error, {"q": q})

    def tensors(self) -> dict[str, Tensor]:
        return {"theta": self.theta, "target": self.target, **prefixed("optimiser", self.optimiser)}
