"""What all agents share: the settings of their networks, saving, and what an update reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.losses import Penalty
from crystalrl.agents.networks import LaneNetwork, Shape
from crystalrl.agents.optimiser import SCHEDULES, LaneAdam, PerLane
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class AgentParams:
    """Settings that every agent has; `learning_rate` may be one number per lane."""

    width: int = 256
    """Of every hidden layer."""
    depth: int = 3
    """Hidden layers."""
    layer_norm: bool = False
    """Normalise hidden layers (Ba et al. 2016)."""
    multi_head: bool = False
    """An output layer for each task, chosen by its id."""
    learning_rate: PerLane = 3e-4
    schedule: str = "constant"
    """Of the learning rate: constant, cosine or robbins-monro."""
    horizon: int = 100_000
    """Updates after which cosine ends and robbins-monro has halved the rate."""
    gamma: float = 0.99
    """Discount per environment step; the memory applies it."""
    n_step: int = 1
    """Rewards that the memory sums before it bootstraps."""
    target_rate: float = 0.005
    """How far the target network moves: .005 is Polyak averaging, 1 a copy."""

    def __post_init__(self) -> None:
        rates = self.learning_rate if isinstance(self.learning_rate, Sequence) else (self.learning_rate,)
        refuse(
            self,
            {
                "width": (self.width >= 1, "a whole number ≥ 1"),
                "depth": (self.depth >= 1, "a whole number ≥ 1"),
                "learning_rate": (all(rate > 0 for rate in rates), "numbers > 0"),
                "schedule": (self.schedule in SCHEDULES, f"one of {', '.join(SCHEDULES)}"),
                "horizon": (self.horizon >= 1, "a whole number ≥ 1"),
                "gamma": (0 <= self.gamma <= 1, "a number in [0, 1]"),
                "n_step": (self.n_step >= 1, "a whole number ≥ 1"),
                "target_rate": (0 < self.target_rate <= 1, "a number in (0, 1]"),
            },
        )

    def adam(self, theta: Tensor, copies: int = 1) -> LaneAdam:
        """An optimiser for parameters [copies · L, P], the copies of a lane side by side."""
        rate = self.learning_rate
        each = rate if not isinstance(rate, Sequence) else [value for value in rate for _ in range(copies)]
        return LaneAdam(theta.detach(), each, self.schedule, self.horizon)


def refuse(params: object, wanted: Mapping[str, tuple[bool, str]]) -> None:
    """Raise for the first setting that is not good: name → (good, what was wanted)."""
    for name, (good, wish) in wanted.items():
        if not good:
            raise ValueError(f"{name}: wanted {wish}, got {getattr(params, name)}")


@dataclass(frozen=True)
class Spaces:
    """What agents must know of the tasks: shape of an observation, actions (a number, or the shape of a box in
    [−1, 1]), and how many tasks there are.
    """

    obs: Shape
    action: int | Shape
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class Update:
    """What one update reports: td_error [L, B], loss [L], norm of the gradient before clipping [L] if it is clipped."""

    td_error: Tensor
    loss: Tensor
    gradient_norm: Tensor | None = None


class Agent:
    """Saving and restoring. Invariant: tensors change in place, never their identity."""

    params: AgentParams
    network: LaneNetwork
    """What continual-learning methods protect: the network of the Q values, or of the policy where there is one."""
    theta: Tensor
    streams: Streams
    anchors: Mapping[str, Shape]
    """Outputs that can be anchored, with their shapes."""

    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions int64[L, E] or [L, E, A] for observations [L, E, …]; each uniform with probability epsilon, a tensor
        that broadcasts to [L, E].
        """
        raise NotImplementedError

    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """The best actions it knows."""
        raise NotImplementedError

    def update(self, batch: Batch, method: Penalty | None = None) -> Update:
        """One step of learning."""
        raise NotImplementedError

    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] and the outputs named in `anchors`; changes nothing."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state, beside the streams."""
        raise NotImplementedError

    def _all(self) -> dict[str, Tensor]:
        return self.tensors() | {f"streams.{name}": tensor for name, tensor in self.streams.tensors().items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that decides what happens next, copied to CPU."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self._all().items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`; an error, with nothing changed, if its names or shapes do not fit."""
        own = self._all()
        if set(own) != set(state):
            raise ValueError(f"state: wanted {sorted(own)}, got {sorted(state)}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                raise ValueError(f"state {name}: wanted {list(tensor.shape)}, got {list(state[name].shape)}")
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self.streams.refresh()


def prefixed(name: str, optimiser: LaneAdam) -> dict[str, Tensor]:
    """An optimiser's tensors under a name."""
    return {f"{name}.{part}": tensor for part, tensor in optimiser.tensors().items()}


def plain(obs: Tensor | dict[str, Tensor]) -> Tensor:
    """A tensor of observations; dicts are refused."""
    if isinstance(obs, dict):
        raise TypeError(f"obs: wanted a tensor, got a dict with keys {sorted(obs)}")
    return obs
