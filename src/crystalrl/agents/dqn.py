"""Deep Q-learning (Mnih et al. 2015) with double Q and optional dueling heads, many lanes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.agents.losses import anchor_loss, weighted_huber
from crystalrl.agents.networks import LaneMLP
from crystalrl.agents.optimiser import LaneAdam, PerLane, clipped
from crystalrl.random import Stream, Streams
from crystalrl.types import Batch, Evaluation


class Penalty(Protocol):
    """What a continual-learning method adds to the loss."""

    def penalty(self, theta: Tensor) -> Tensor | None:
        """[L] for parameters [L, P]; None adds nothing."""


@dataclass(frozen=True)
class DQNParams:
    """Settings of the agent; `learning_rate` may be one number per lane."""

    width: int = 128
    """Of every hidden layer."""
    depth: int = 2
    """Hidden layers."""
    learning_rate: PerLane = 1e-3
    gamma: float = 0.95
    """Discount per environment step; the memory applies it."""
    target_rate: float = 0.01
    """How far the target network moves: .01 is Polyak averaging, 1 a copy."""
    target_every: int = 1
    """Updates between two moves of the target network."""
    clip: float = 10.0
    """Largest norm of a lane's gradient."""
    double: bool = True
    """The online network chooses the next action, the target network values it (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate heads for the value and the advantages (Wang et al. 2016)."""

    def __post_init__(self) -> None:
        rates = self.learning_rate if isinstance(self.learning_rate, Sequence) else (self.learning_rate,)
        wanted = {
            "width": (self.width >= 1, "a whole number ≥ 1"),
            "depth": (self.depth >= 1, "a whole number ≥ 1"),
            "learning_rate": (all(rate > 0 for rate in rates), "numbers > 0"),
            "gamma": (0 <= self.gamma <= 1, "a number in [0, 1]"),
            "target_rate": (0 < self.target_rate <= 1, "a number in (0, 1]"),
            "target_every": (self.target_every >= 1, "a whole number ≥ 1"),
            "clip": (self.clip > 0, "a number > 0"),
        }
        for name, (good, wish) in wanted.items():
            if not good:
                raise ValueError(f"{name}: wanted {wish}, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Update:
    """What one update reports: td_error [L, B], loss [L], norm of the gradient before clipping [L]."""

    td_error: Tensor
    loss: Tensor
    gradient_norm: Tensor


class DQN:
    """L learners side by side. Invariant: `theta`, `target` and the optimiser change in place, never their identity."""

    def __init__(self, obs: int, actions: int, params: DQNParams, streams: Streams) -> None:
        self.params, self.actions, self.streams = params, actions, streams
        self.network = LaneMLP(obs, [params.width] * params.depth, actions, params.dueling)
        self.theta = self.network.initial(streams).requires_grad_()
        self.target = self.theta.detach().clone()
        self.optimiser = LaneAdam(self.target, params.learning_rate)

    @torch.no_grad()
    def greedy(self, obs: Tensor) -> Tensor:
        """Best actions int64[L, E] for observations [L, E, D]."""
        return self.network(self.theta, obs).argmax(-1)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor) -> Tensor:
        """Actions int64[L, E]: random with probability epsilon (a tensor that broadcasts to [L, E]), else greedy."""
        envs = obs.shape[1]
        uniform = self.streams.uniform(Stream.EXPLORE, 2 * envs)
        random = (uniform[:, envs:] * self.actions).to(torch.int64)
        return torch.where(uniform[:, :envs] < epsilon, random, self.greedy(obs))

    def td_target(self, batch: Batch) -> Tensor:
        """[L, B]: r + discount · Q_target(s′, argmax Q_online(s′))."""
        with torch.no_grad():
            future = self.network(self.target, _plain(batch.next_obs))
            choice = self.network(self.theta, _plain(batch.next_obs)) if self.params.double else future
            best = future.gather(-1, choice.argmax(-1, keepdim=True)).squeeze(-1)
            return batch.reward + batch.discount * best

    def _judge(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Q values [L, B, A] and TD errors [L, B]."""
        q = self.network(self.theta, _plain(batch.obs))
        taken = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        return q, self.td_target(batch) - taken

    def update(self, batch: Batch, method: Penalty | None = None) -> Update:
        """One gradient step per lane: weighted TD loss + anchor loss + the method's penalty."""
        q, td_error = self._judge(batch)
        loss = weighted_huber(td_error, batch.weight)
        if batch.anchor is not None:
            loss = loss + anchor_loss({"q": q}, batch.anchor)
        extra = method.penalty(self.theta) if method is not None else None
        if extra is not None:
            loss = loss + extra
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

    def _tensors(self) -> dict[str, Tensor]:
        own = {"theta": self.theta, "target": self.target}
        own |= {f"optimiser.{name}": tensor for name, tensor in self.optimiser.tensors().items()}
        return own | {f"streams.{name}": tensor for name, tensor in self.streams.tensors().items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that decides what happens next, copied to CPU."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self._tensors().items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`; an error, with nothing changed, if its names or shapes do not fit."""
        own = self._tensors()
        if set(own) != set(state):
            raise ValueError(f"state: wanted {sorted(own)}, got {sorted(state)}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                raise ValueError(f"state {name}: wanted {list(tensor.shape)}, got {list(state[name].shape)}")
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self.streams.refresh()


def _plain(obs: Tensor | dict[str, Tensor]) -> Tensor:
    if isinstance(obs, dict):
        raise TypeError(f"obs: wanted a tensor, got a dict with keys {sorted(obs)}")
    return obs
