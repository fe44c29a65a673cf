"""Rainbow (Hessel et al. 2018), many lanes at once: double, dueling, noisy, C51 (Bellemare et al. 2017).

The memory provides the other two parts: n-step returns (it receives `n_step`) and, if prioritized, priorities.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Spaces, require, require_tensor
from crystalrl.agents.dqn import ValueAgent, ValueParams, value_network
from crystalrl.agents.exploration import action_count, epsilon_greedy
from crystalrl.losses import Penalty, advantages, anchor_losses, squared_error, weighted_mean, with_penalty
from crystalrl.random import Stream, Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class RainbowParams(ValueParams):
    """Settings of Rainbow; `learning_rate` may be one number per lane."""

    n_step: int = 3
    low: float = -10.0
    """Lowest atom: smaller returns are clipped to it."""
    high: float = 10.0
    """Highest atom: larger returns are clipped to it."""
    atoms: int = 51
    """Number of atoms of a return distribution, evenly spaced from low to high."""
    noisy: bool = True
    """Noise in the linear layers explores (Fortunato et al. 2018); then no random actions are needed."""
    dueling: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "high": (self.high > self.low, f"a number above low = {self.low}"),
            "atoms": (self.atoms >= 2, "a whole number ≥ 2"),
            "pop_art": (not self.pop_art, "false, because the returns of the atoms are fixed"),
        }
        require(self, rules)


class Rainbow(ValueAgent):
    """L learners in parallel: distributional Q network `theta` and target network `target`, both [L, P]."""

    params: RainbowParams

    def __init__(self, spaces: Spaces, params: RainbowParams, streams: Streams) -> None:
        self.params, self.streams, self.actions = params, streams, action_count(spaces)
        self.network = value_network(spaces, params, params.atoms, params.noisy)
        self.anchors = {"advantage": (self.actions,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.target = self.theta.detach().clone()
        self.optimiser = params.adam(self.target)
        self.returns = torch.linspace(params.low, params.high, params.atoms, device=streams.device)
        """The return of each atom, [M]."""
        self.parts, self.distances = self._only_part(), dict.fromkeys(("q", "advantage"), self._scaled_distance)

    def _noise(self) -> Tensor | None:
        """Standard normals for one noisy pass; the stream advances by one tick."""
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
        """Best actions int64[L, E] with new noise; random with probability epsilon."""
        best = self._means(self.network(self.theta, obs, context, noise=self._noise())).argmax(-1)
        return epsilon_greedy(best, epsilon, self.actions, self.streams)

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """The loss [L]: weighted cross-entropy + anchor loss + the method's penalty; and TD errors [L, B]."""
        q, td_error, cross_entropy = self._td_errors(batch, self._noise(), self._noise())
        loss = weighted_mean(cross_entropy, batch.weight)
        if batch.anchor is not None:
            outputs = {"q": q, "advantage": advantages(q)}
            loss = loss + anchor_losses(outputs, batch.anchor, self.distances)
        return with_penalty(loss, method, {"q": self.theta}), td_error

    def _td_errors(self, batch: Batch, online: Tensor | None, target: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Q values [L, B, A], TD errors of the means [L, B], cross-entropies [L, B], with noise for each network."""
        logits = self.network(self.theta, require_tensor(batch.obs), batch.context, noise=online)
        taken = batch.action[..., None, None].expand(-1, -1, 1, self.params.atoms)
        wanted, own = self.td_target(batch, online, target), logits.gather(2, taken).squeeze(2)
        q = self._means(logits)
        td_error = (wanted * self.returns).sum(-1) - q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        return q, td_error, -(wanted * own.log_softmax(-1)).sum(-1)

    @torch.no_grad()
    def td_target(self, batch: Batch, online: Tensor | None, target: Tensor | None) -> Tensor:
        """Distribution [L, B, M] of r + discount · Z_target(s′, argmax Q_online(s′)), with noise for each network."""
        next_obs = require_tensor(batch.next_obs)
        future = self.network(self.target, next_obs, batch.context, noise=target)
        choice = self.network(self.theta, next_obs, batch.context, noise=online) if self.params.double else future
        best = self._means(choice).argmax(-1)[..., None, None].expand(-1, -1, 1, self.params.atoms)
        probability = future.gather(2, best).squeeze(2).softmax(-1)
        return self.projected(probability, batch.reward, batch.discount)

    def projected(self, probability: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Probabilities [L, B, M] of r + discount · z, divided between the nearest atoms."""
        p = self.params
        moved = (reward.unsqueeze(-1) + discount.unsqueeze(-1) * self.returns).clamp(p.low, p.high)
        gap = (p.high - p.low) / (p.atoms - 1)
        share = (1 - (moved.unsqueeze(-1) - self.returns).abs() / gap).clamp_min(0)
        return (probability.unsqueeze(-1) * share).sum(-2)

    def _scaled_distance(self, mean: Tensor, target: Tensor) -> Tensor:
        """Squared error of the means [L, B], divided by the variance of a uniform return in [low, high], so that, like
        the cross-entropy, it does not depend on the scale of returns.
        """
        return squared_error(mean, target) * 12 / (self.params.high - self.params.low) ** 2

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        return {"q": self._means(self.network(self.theta, require_tensor(batch.obs), batch.context))}

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] of the means, and what can be anchored, {"advantage": [L, B, A]}; without noise."""
        q, td_error, _ = self._td_errors(batch, None, None)
        if self.params.errors == "online":
            future = self._means(self.network(self.theta, require_tensor(batch.next_obs), batch.context)).amax(-1)
            taken = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
            td_error = batch.reward + batch.discount * future - taken
        return Evaluation(td_error, {"advantage": advantages(q)})
