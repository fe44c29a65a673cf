"""Deep Q-learning (Mnih et al. 2015) with double Q and optional dueling heads, many lanes at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import plain, refuse
from crystalrl.agents.exploration import mixed
from crystalrl.agents.losses import Penalty, anchor_loss, huber, weighted, with_penalty
from crystalrl.agents.optimiser import PerLane
from crystalrl.agents.values import ValueAgent, ValueParams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class DQNParams(ValueParams):
    """Settings of the agent; `learning_rate` may be one number per lane."""

    learning_rate: PerLane = 1e-3
    gamma: float = 0.95
    target_rate: float = 0.01
    target_every: int = 1
    """Updates between two moves of the target network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self, {"target_every": (self.target_every >= 1, "a whole number ≥ 1")})


class DQN(ValueAgent):
    """L learners side by side."""

    params: DQNParams

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
        q, td_error = self._judge(batch)
        loss = weighted(huber(td_error), batch.weight)
        if batch.anchor is not None:
            loss = loss + anchor_loss({"q": q}, batch.anchor)
        return with_penalty(loss, method, self.theta), td_error

    @torch.no_grad()
    def _move_target(self) -> None:
        moves = (self.optimiser.steps % self.params.target_every == 0).to(torch.float32)
        self.target.lerp_(self.theta, moves * self.params.target_rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] and the outputs that can be anchored, {"q": [L, B, A]}."""
        q, td_error = self._judge(batch)
        return Evaluation(td_error, {"q": q})
