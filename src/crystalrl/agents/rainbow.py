"""Rainbow (Hessel et al. 2018), many lanes at once: double, dueling, noisy, C51 (Bellemare et al. 2017).

Its n-step returns and priorities are the memory's: `n_step` is handed to it, and a prioritized memory makes it whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Spaces, plain, refuse
from crystalrl.agents.exploration import mixed
from crystalrl.agents.losses import Penalty, anchor_loss, squared, weighted, with_penalty
from crystalrl.agents.values import ValueAgent, ValueParams
from crystalrl.random import Stream, Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class RainbowParams(ValueParams):
    """Settings of the agent; `learning_rate` may be one number per lane."""

    n_step: int = 3
    low: float = -10.0
    """Least return that can be told."""
    high: float = 10.0
    """Largest return that can be told."""
    atoms: int = 51
    """Returns between them that a distribution is made of."""
    noisy: bool = True
    """Noise in the linear layers explores (Fortunato et al. 2018); then no random actions are needed."""
    dueling: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            self,
            {
                "high": (self.high > self.low, f"a number above low = {self.low}"),
                "atoms": (self.atoms >= 2, "a whole number ≥ 2"),
            },
        )


class Rainbow(ValueAgent):
    """L learners side by side."""

    params: RainbowParams

    def __init__(self, spaces: Spaces, params: RainbowParams, streams: Streams) -> None:
        super().__init__(spaces, params, streams, params.atoms, params.noisy)
        self.returns = torch.linspace(params.low, params.high, params.atoms, device=streams.device)
        """What each atom stands for."""

    def _noise(self) -> Tensor | None:
        """Normals for one noisy pass; one tick."""
        if not self.params.noisy:
            return None
        return self.streams.normal(Stream.EXPLORE, self.network.noise_size).to(torch.float32)

    def _means(self, logits: Tensor) -> Tensor:
        """Q values [L, B, A] of distributions [L, B, A, M]."""
        return (logits.softmax(-1) * self.returns).sum(-1)

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """Best actions int64[L, E] for observations [L, E, …], without noise."""
        return self._means(self.network(self.theta, obs, context)).argmax(-1)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Best actions int64[L, E] under fresh noise; random with probability epsilon."""
        best = self._means(self.network(self.theta, obs, context, noise=self._noise())).argmax(-1)
        return mixed(best, epsilon, self.actions, self.streams)

    @torch.no_grad()
    def td_target(self, batch: Batch, online: Tensor | None, target: Tensor | None) -> Tensor:
        """Distribution [L, B, M] of r + discount · Z_target(s′, argmax Q_online(s′)), under two noises."""
        then = plain(batch.next_obs)
        future = self.network(self.target, then, batch.context, noise=target)
        choice = self.network(self.theta, then, batch.context, noise=online) if self.params.double else future
        best = self._means(choice).argmax(-1)[..., None, None].expand(-1, -1, 1, self.params.atoms)
        share = future.gather(2, best).squeeze(2).softmax(-1)
        return self.projected(share, batch.reward, batch.discount)

    def projected(self, share: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Probabilities [L, B, M] of r + discount · z, shared between the nearest atoms."""
        p = self.params
        moved = (reward.unsqueeze(-1) + discount.unsqueeze(-1) * self.returns).clamp(p.low, p.high)
        gap = (p.high - p.low) / (p.atoms - 1)
        near = (1 - (moved.unsqueeze(-1) - self.returns).abs() / gap).clamp_min(0)
        return (share.unsqueeze(-1) * near).sum(-2)

    def _judge(self, batch: Batch, online: Tensor | None, target: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Q values [L, B, A], TD errors of the means [L, B], cross-entropies [L, B]."""
        logits = self.network(self.theta, plain(batch.obs), batch.context, noise=online)
        taken = batch.action[..., None, None].expand(-1, -1, 1, self.params.atoms)
        goal, own = self.td_target(batch, online, target), logits.gather(2, taken).squeeze(2)
        q = self._means(logits)
        td_error = (goal * self.returns).sum(-1) - q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        return q, td_error, -(goal * own.log_softmax(-1)).sum(-1)

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        q, td_error, entropy = self._judge(batch, self._noise(), self._noise())
        loss = weighted(entropy, batch.weight)
        if batch.anchor is not None:
            loss = loss + anchor_loss({"q": q}, batch.anchor, {"q": self._apart})
        return with_penalty(loss, method, self.theta), td_error

    def _apart(self, mean: Tensor, held: Tensor) -> Tensor:
        """Squared distance of means [L, B] in units of the support's deviation: the loss it joins knows no others."""
        return squared(mean, held) * 12 / (self.params.high - self.params.low) ** 2

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] of the means and what can be anchored, {"q": [L, B, A]} the means, without noise."""
        q, td_error, _ = self._judge(batch, None, None)
        return Evaluation(td_error, {"q": q})
