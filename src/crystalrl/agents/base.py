"""The base of all agents: network and optimiser settings, saving, and the result of an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.agents.networks import LaneNetwork, Shape
from crystalrl.agents.optimiser import SCHEDULES, LaneAdam
from crystalrl.agents.pop_art import PopArt
from crystalrl.lanes import PerLane, lane_values
from crystalrl.losses import Distance, Penalty
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation, Observation


@dataclass(frozen=True)
class AgentParams:
    """Settings of every agent; `learning_rate` may be one number per lane."""

    width: int = 256
    """Units per hidden layer."""
    depth: int = 3
    """Number of hidden layers."""
    columns: int = 1
    """Groups of hidden units with adapters between them, one per task, for the method `pnn`; 1: a plain network.
    `width` is that of all columns together."""
    layer_norm: bool = False
    """Normalise hidden layers (Ba et al. 2016)."""
    multi_head: bool = False
    """One output layer per task, selected by the task's id."""
    pop_art: bool = False
    """Values are normalised per task, with one value head per task (Pop-Art; Hessel et al. 2019). TD errors, and
    temperatures of SAC, are then in units of the scale of a task's targets."""
    learning_rate: PerLane = 3e-4
    schedule: str = "constant"
    """Schedule of the learning rate: constant, cosine, step or robbins-monro."""
    horizon: int = 100_000
    """Updates after which `cosine` reaches 0, and `step` and `robbins-monro` have halved the rate."""
    gamma: float = 0.99
    """Discount per environment step; the memory applies it."""
    n_step: int = 1
    """Number of rewards that the memory sums before bootstrapping."""
    target_rate: float = 0.005
    """Step of the target network towards the online one: .005 is Polyak averaging, 1 a copy."""
    target_every: int = 1
    """Updates (TD3: of the policy) between two steps of the target networks."""
    errors: str = "target"
    """The network that gives the future value in the TD errors of `evaluate`: target, as in the loss, or online,
    without double Q-learning (the paper's eq. td)."""

    def __post_init__(self) -> None:
        require(
            self,
            {
                "width": (self.width >= 1, "a whole number ≥ 1"),
                "depth": (self.depth >= 1, "a whole number ≥ 1"),
                "columns": (self.columns >= 1 and self.width % self.columns == 0, "a whole number that divides width"),
                "learning_rate": (all(rate > 0 for rate in lane_values(self.learning_rate)), "numbers > 0"),
                "schedule": (self.schedule in SCHEDULES, f"one of {', '.join(SCHEDULES)}"),
                "horizon": (self.horizon >= 1, "a whole number ≥ 1"),
                "gamma": (0 <= self.gamma <= 1, "a number in [0, 1]"),
                "n_step": (self.n_step >= 1, "a whole number ≥ 1"),
                "target_rate": (0 < self.target_rate <= 1, "a number in (0, 1]"),
                "target_every": (self.target_every >= 1, "a whole number ≥ 1"),
                "errors": (self.errors in ("target", "online"), "one of target, online"),
            },
        )

    def value_heads(self, spaces: Spaces) -> int:
        """Output layers of a value network."""
        return spaces.tasks if self.multi_head or self.pop_art else 1

    def adam(self, theta: Tensor, copies: int = 1) -> LaneAdam:
        """An optimiser for parameters [L · copies, P], the copies of a lane in consecutive rows."""
        rate = self.learning_rate
        rates = [value for value in rate for _ in range(copies)] if isinstance(rate, Sequence) else rate
        return LaneAdam(theta.detach(), rates, self.schedule, self.horizon)


def require(params: object, rules: Mapping[str, tuple[bool, str]]) -> None:
    """Raise for the first setting that breaks its rule; name → (whether it is valid, what is expected)."""
    for name, (valid, expected) in rules.items():
        if not valid:
            raise ValueError(f"{name}: wanted {expected}, got {getattr(params, name)}")


@dataclass(frozen=True)
class Spaces:
    """Shapes and number of the tasks."""

    obs: Shape
    """Shape of an observation."""
    action: int | Shape
    """Number of discrete actions, or the shape of a box action in [−1, 1]."""
    tasks: int = 1
    """Number of tasks."""


@dataclass(frozen=True, slots=True)
class Update:
    """The result of one update."""

    td_error: Tensor
    """TD errors [L, B], for `Memory.update`."""
    loss: Tensor
    """Loss [L] before the step."""
    gradient_norm: Tensor | None = None
    """Gradient norms [L] before clipping; None if the agent does not clip."""


@dataclass(frozen=True)
class Part:
    """A network that an agent trains, for methods that protect or change networks."""

    network: LaneNetwork
    theta: Tensor
    """Parameters [L, P]; [2L, P] for twin critics, the two of a lane in consecutive rows."""
    optimiser: LaneAdam
    inputs: Callable[[Batch], tuple[Tensor, Tensor | None]]
    """What the network reads of a batch: inputs [L or 2L, B, …] and contexts [L or 2L, B]."""
    target: Tensor | None = None
    """Parameters of the target network, if there is one."""
    precision: Callable[[Tensor], Tensor] | None = None
    """Outputs […, A] → 1/σ […, A] of the distribution around each output, for its Fisher information; None: 1."""


class Hooks(Penalty, Protocol):
    """What an update asks of a continual-learning method; `crystalrl.methods.Method` documents it."""

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]: ...


class Agent:
    """L learners in parallel, one per lane. Invariant: tensors change in place and are never replaced."""

    params: AgentParams
    network: LaneNetwork
    """The network that continual-learning methods protect: the policy if there is one, otherwise the Q network."""
    theta: Tensor
    """Parameters [L, P] of `network`."""
    streams: Streams
    anchors: Mapping[str, Shape]
    """Outputs that can be anchored: name → shape."""
    distances: Mapping[str, Distance] = {}
    """For methods that clone outputs: the distance between two values of an output, by name; squared error for those
    without one."""
    scale: PopArt | None = None
    """How values are normalised, if they are."""
    parts: Mapping[str, Part]
    """The trained networks, under the names of their outputs: "q" and, if there is one, "policy"."""

    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Exploring actions int64[L, E] or [L, E, A] for observations [L, E, …]; each is uniform with probability
        epsilon, a tensor that broadcasts to [L, E].
        """
        raise NotImplementedError

    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions int64[L, E] or [L, E, A] without exploration."""
        raise NotImplementedError

    def update(self, batch: Batch, method: Hooks | None = None) -> Update:
        """One gradient step per lane."""
        raise NotImplementedError

    def loss_of(self, batch: Batch, names: Sequence[str]) -> Tensor:
        """The loss [L], without a method, that trains the named parts."""
        raise NotImplementedError

    def gradients(self, batch: Batch, names: Sequence[str]) -> dict[str, Tensor]:
        """Gradients of that loss for the named parts; nothing but the streams changes."""
        parts = [self.parts[name].theta for name in names]
        found = torch.autograd.grad(self.loss_of(batch, names).sum(), parts)
        return dict(zip(names, found, strict=True))

    def edited(self, method: Hooks | None, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients of some parts, as the method changes them."""
        return gradients if method is None else method.edit_gradients(self, gradients)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """The outputs [L, B, …] of all parts, with gradients."""
        raise NotImplementedError

    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] and the outputs named in `anchors`; changes nothing."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state, without the streams."""
        raise NotImplementedError

    def _all_tensors(self) -> dict[str, Tensor]:
        return self.tensors() | {f"streams.{name}": tensor for name, tensor in self.streams.tensors().items()}

    def state_dict(self) -> dict[str, Tensor]:
        """The complete state, copied to CPU."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self._all_tensors().items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load `state`. Raises, with nothing changed, if its names or shapes do not match."""
        own = self._all_tensors()
        if set(own) != set(state):
            raise ValueError(f"state: wanted {sorted(own)}, got {sorted(state)}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                raise ValueError(f"state {name}: wanted {list(tensor.shape)}, got {list(state[name].shape)}")
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self.streams.refresh()


def prefixed(name: str, optimiser: LaneAdam) -> dict[str, Tensor]:
    """An optimiser's tensors, their names prefixed."""
    return {f"{name}.{part}": tensor for part, tensor in optimiser.tensors().items()}


def inputs_of(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """What a network of observations alone reads of a batch."""
    return require_tensor(batch.obs), batch.context


def require_tensor(obs: Observation) -> Tensor:
    """The observations, if they are one tensor; raises for a dict."""
    if isinstance(obs, dict):
        raise TypeError(f"obs: wanted a tensor, got a dict with keys {sorted(obs)}")
    return obs
