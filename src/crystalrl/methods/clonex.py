"""ClonEx-SAC (Wołczyk et al. 2022): clone the outputs at the end of each task, and explore with old policies.

Cloning: the outputs at kept experiences of each task are stored when it ends; every later update adds the gradient of
coefficient · distance to them (KL divergence between Gaussian policies, otherwise the squared distance). Exploration:
a task starts with the heads of earlier tasks, one per environment in turn; after half of the time the head with the
best mean reward explores alone ("best return").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.archive import Archive
from crystalrl.methods.base import Method, Setup, read_slots, refuse
from crystalrl.methods.recorded import empty_outputs, with_pull
from crystalrl.types import Anchor, Batch, Memory


@dataclass(frozen=True)
class ClonExParams:
    """Settings of ClonEx-SAC; `policy` and `critic` may be one number per lane. Defaults: a configuration of
    the authors for Continual World."""

    policy: PerLane = 100.0
    """Factor of the distance from the stored policy, or from the stored Q values if there is no policy."""
    critic: PerLane = 0.0
    """Factor of the distance from the stored values of the critics, if there is a policy."""
    size: int = 10_000
    """Experiences that are kept of each task."""
    batch: int = 128
    """Experiences of earlier tasks in an update."""
    explore: int = 10_000
    """Environment steps at the start of a task that are taken with the heads of earlier tasks; 0: none."""

    def __post_init__(self) -> None:
        for name in ("policy", "critic"):
            if not all(value >= 0 for value in lane_values(getattr(self, name))):
                raise ValueError(f"{name}: wanted numbers ≥ 0, got {getattr(self, name)}")
        for name, least in (("batch", 1), ("explore", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: wanted a whole number ≥ {least}, got {getattr(self, name)}")


class Cloning(Method):
    """Invariant: `targets[key][l, i]` is what the network gave for experience i of the archive when its task ended."""

    boundaries = True

    def __init__(self, setup: Setup, params: ClonExParams) -> None:
        self.params, self.archive, self.memory = params, Archive(setup, params.size), setup.memory
        lanes, device = setup.memory.lanes, setup.agent.theta.device
        self.targets = empty_outputs(setup, self.archive.rows.shape[1])
        factors = dict(zip(setup.agent.parts, (params.policy, params.critic), strict=False))
        self.factors = {key: per_lane(key, value, lanes, device, torch.float32) for key, value in factors.items()}

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
        return with_pull(agent, gradients, batch, self.anchors(batch))

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


class ClonEx(Cloning):
    """Cloning, and exploration with the heads of earlier tasks.

    Invariant: the first `learnt` of `heads` int64[L, T] are the ids of completed tasks; `total` and `steps` [L, T] sum
    the rewards and steps of each head in the current task; `clock` counts its environment steps.
    """

    ids = True

    def __init__(self, setup: Setup, params: ClonExParams) -> None:
        super().__init__(setup, params)
        one = setup.agent.network.heads == 1 or not setup.memory.spec.context
        refuse("clonex", one and params.explore > 0, "explore = 0, because there is one head", params.explore)
        lanes, device, tasks = setup.memory.lanes, setup.agent.theta.device, len(setup.tasks)
        self.heads, self.steps, self.choice = (
            torch.zeros(lanes, width, dtype=torch.int64, device=device)
            for width in (tasks, tasks, setup.memory.spec.envs)
        )
        self.total = torch.zeros(lanes, tasks, device=device)
        self.clock, self.learnt = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        for tensor in (self.total, self.steps, self.clock):
            tensor.zero_()

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        super().task_end(agent, memory, task)
        context = self.archive.read(self.archive.filled.expand(memory.lanes, 1) - 1).context
        if context is not None:
            self.heads[:, task] = context[:, 0].to(torch.int64)
        self.learnt += 1

    def act(self, agent: Agent, obs: Tensor, epsilon: Tensor, context: Tensor | None) -> Tensor:
        """At the start of a task the actions of earlier heads, then the agent's own."""
        if context is None or not self.params.explore:
            return agent.act(obs, epsilon, context)
        turn = torch.arange(obs.shape[1], device=obs.device) % self.learnt.clamp_min(1)
        mean = torch.where(self.steps > 0, self.total / self.steps.clamp_min(1), -torch.inf)
        testing = 2 * self.clock < self.params.explore
        self.choice.copy_(torch.where(testing, turn, mean.argmax(1, keepdim=True)))
        old = agent.act(obs, torch.zeros_like(epsilon), self.heads.gather(1, self.choice).to(context.dtype))
        new = agent.act(obs, epsilon, context)
        return torch.where((self.clock < self.params.explore) & (self.learnt > 0), old, new)

    def stored(self, slots: Tensor) -> None:
        """Credit the rewards to the heads that acted."""
        super().stored(slots)
        flat = slots.flatten(2)[..., 0] if slots.dim() == 3 else slots
        reward = torch.where(flat < 0, 0.0, read_slots(self.memory, flat.clamp_min(0)).reward)
        self.total.scatter_add_(1, self.choice, reward)
        self.steps.scatter_add_(1, self.choice, (flat >= 0).to(torch.int64))
        self.clock += flat.shape[1]

    def tensors(self) -> dict[str, Tensor]:
        own = {"heads": self.heads, "steps": self.steps, "choice": self.choice, "total": self.total}
        return super().tensors() | own | {"clock": self.clock, "learnt": self.learnt}
