"""RECALL (Zhang et al. 2023): replay with value targets normalised per task, and the policies of old tasks distilled.

Every task has a head. Pop-Art keeps the targets of all tasks at one scale, so that tasks with large returns do not
dominate the others. When a task ends, the policy at its stored experiences is kept; replaying them pulls the policy
towards it, with the anchor loss of the agent (without a policy: of the normalised Q values).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents import DQN, SAC, TD3
from crystalrl.agents.base import Agent, require_tensor
from crystalrl.agents.exploration import fixed_normals
from crystalrl.lanes import PerLane
from crystalrl.methods.base import Setup, refuse
from crystalrl.methods.distill import Distill, DistillParams
from crystalrl.methods.popart import PopArt
from crystalrl.types import Batch, Memory


@dataclass(frozen=True)
class RECALLParams(DistillParams):
    """Settings of RECALL; `coefficient` may be one number per lane."""

    coefficient: PerLane = 1.0
    """Factor of the distance from the policy at the end of a replayed experience's task. Our choice: search it."""
    rate: float = 3e-4
    """Step of the moments of the value targets towards those of a batch (Hessel et al. 2019)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate: wanted a number in (0, 1], got {self.rate}")


class RECALL(Distill):
    """Distillation of the policy, and Pop-Art in the critics. The moments of completed tasks stay as they are."""

    ids = True

    def __init__(self, setup: Setup, params: RECALLParams) -> None:
        agent = setup.agent
        refuse("recall", not isinstance(agent, DQN | SAC | TD3), "dqn, sac or td3", type(agent).__name__)
        refuse("recall", agent.parts["q"].network.heads == 1, "multi_head = true, for several tasks", "one head")
        refuse("recall", agent.parts["q"].network.dueling, "dueling = false", "true")
        super().__init__(setup, params)
        policy = next(iter(agent.parts))
        self.outputs = {policy: self.outputs[policy]}
        self.agent, self.popart = agent, PopArt(agent.parts["q"], setup.memory.lanes, params.rate)

    def augment(self, batch: Batch) -> Batch:
        """The batch in normalised units, with anchors on what belongs to completed tasks."""
        assert batch.context is not None
        target = targets(self.agent, self.popart.normalised(batch))
        self.popart.update(target, batch.context.to(torch.int64))
        return super().augment(self.popart.normalised(batch))

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Store the policy at the task's experiences; its moments no longer change."""
        super().task_end(agent, memory, task)
        context = memory.sample(memory.capacity).context
        assert context is not None
        self.popart.held.scatter_(1, context.to(torch.int64), 1.0)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | self.popart.tensors()


def targets(agent: Agent, batch: Batch) -> Tensor:
    """TD targets [L, B]; no stream advances."""
    if isinstance(agent, DQN):
        return agent.td_target(batch)
    assert isinstance(agent, SAC | TD3)
    obs = require_tensor(batch.obs)
    return agent.td_target(batch, fixed_normals(agent.streams, agent.optimisers["critic"].steps, obs, agent.size))
