"""Behavioural cloning of completed tasks: the outputs at kept experiences of each task are stored when it ends.

Every later update adds the gradient of coefficient · distance to them, a mean over numbers: KL(policy ‖ stored policy)
of Gaussian policies, otherwise the squared distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.losses import Distance, gaussian_divergence
from crystalrl.methods.archive import Archive
from crystalrl.methods.base import Method, Setup
from crystalrl.methods.recorded import empty_outputs, per_number, with_pull
from crystalrl.types import Anchor, Batch, Memory


@dataclass(frozen=True)
class CloningParams:
    """Settings of cloning; `policy` and `critic` may be one number per lane. Defaults: those of ClonEx."""

    policy: PerLane = 100.0
    """Factor of the distance from the stored policy, or from the stored Q values if there is no policy."""
    critic: PerLane = 0.0
    """Factor of the distance from the stored values of the critics, if there is a policy."""
    size: int = 10_000
    """Experiences that are kept of each task."""
    batch: int = 128
    """Experiences of earlier tasks in an update."""

    def __post_init__(self) -> None:
        for name in ("policy", "critic"):
            if not all(value >= 0 for value in lane_values(getattr(self, name))):
                raise ValueError(f"{name}: wanted numbers ≥ 0, got {getattr(self, name)}")
        if self.batch < 1:
            raise ValueError(f"batch: wanted a whole number ≥ 1, got {self.batch}")


class Cloning(Method):
    """Invariant: `targets[key][l, i]` is what the network gave for experience i of the archive when its task ended."""

    boundaries = True

    def __init__(self, setup: Setup, params: CloningParams) -> None:
        self.params, self.archive, self.memory = params, Archive(setup, params.size), setup.memory
        lanes, device = setup.memory.lanes, setup.agent.theta.device
        self.targets = empty_outputs(setup, self.archive.rows.shape[1])
        factors = dict(zip(setup.agent.parts, (params.policy, params.critic), strict=False))
        self.factors = {
            key: per_lane(key, value, lanes, device, torch.float32) * per_number(setup.agent, key)
            for key, value in factors.items()
        }

    def stored(self, slots: Tensor) -> None:
        self.archive.stored(slots)

    @torch.no_grad()
    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Keep some of the task's experiences, and the outputs there."""
        batch = self.archive.extend()
        for key, output in agent.outputs(batch).items():
            self.targets[key][:, batch.index[0]] = output

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients plus those of the cloning loss."""
        if self.archive.known_empty:
            return gradients
        batch = self.archive.sample(self.params.batch)
        return with_pull(agent, gradients, batch, self.anchors(batch), cloning_distances(agent))

    def anchors(self, batch: Batch) -> dict[str, Anchor]:
        """Targets and factors at experiences of the archive; the factors are 0 while there are none."""
        some = (self.archive.filled > 0).to(torch.float32)
        anchors = {}
        for name, target in self.targets.items():
            index = batch.index[..., None].expand(-1, -1, target.shape[-1])
            anchors[name] = Anchor(target.gather(1, index), (some * self.factors[name]) * batch.weight)
        return anchors

    def tensors(self) -> dict[str, Tensor]:
        return self.archive.tensors() | {f"targets.{key}": target for key, target in self.targets.items()}


def cloning_distances(agent: Agent) -> dict[str, Distance]:
    """The agent's distances, with KL(output ‖ target) for Gaussian policies instead of KL(target ‖ output)."""
    return {key: _from_output if one is gaussian_divergence else one for key, one in agent.distances.items()}


def _from_output(output: Tensor, target: Tensor) -> Tensor:
    return gaussian_divergence(target, output)
