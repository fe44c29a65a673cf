"""What DQN and Rainbow share: a network that values discrete actions, its slow copy, and the step that moves both."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, AgentParams, Spaces, Update, prefixed, refuse
from crystalrl.agents.exploration import discrete
from crystalrl.agents.losses import Penalty
from crystalrl.agents.networks import LaneNetwork
from crystalrl.agents.optimiser import clipped
from crystalrl.random import Streams
from crystalrl.types import Batch


@dataclass(frozen=True)
class ValueParams(AgentParams):
    """Settings of agents that value discrete actions."""

    width: int = 128
    depth: int = 2
    clip: float = 10.0
    """Largest norm of a lane's gradient."""
    double: bool = True
    """The online network chooses the next action, the target network values it (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate heads for the value and the advantages (Wang et al. 2016)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self, {"clip": (self.clip > 0, "a number > 0")})


class ValueAgent(Agent):
    """L learners side by side. Invariant: `theta`, `target` and the optimiser change in place, never their identity."""

    params: ValueParams

    def __init__(
        self, spaces: Spaces, params: ValueParams, streams: Streams, atoms: int = 1, noisy: bool = False
    ) -> None:
        self.params, self.actions, self.streams = params, discrete(spaces), streams
        self.network = LaneNetwork(
            spaces.obs,
            [params.width] * params.depth,
            self.actions,
            dueling=params.dueling,
            layer_norm=params.layer_norm,
            heads=spaces.tasks if params.multi_head else 1,
            atoms=atoms,
            noisy=noisy,
        )
        self.anchors = {"q": (self.actions,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.target = self.theta.detach().clone()
        self.optimiser = params.adam(self.target)

    def loss(self, batch: Batch, method: Penalty | None = None) -> tuple[Tensor, Tensor]:
        """What `update` lowers [L]: weighted TD loss + anchor loss + the method's penalty; and TD errors [L, B]."""
        raise NotImplementedError

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
        self.target.lerp_(self.theta, self.params.target_rate)

    def tensors(self) -> dict[str, Tensor]:
        return {"theta": self.theta, "target": self.target, **prefixed("optimiser", self.optimiser)}
