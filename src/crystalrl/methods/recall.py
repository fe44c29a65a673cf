"""RECALL (Zhang et al. 2023): replay with value targets normalised per task, and the policies of old tasks cloned.

Pop-Art in the agent (`pop_art = true`) keeps the targets of all tasks at one scale, so that tasks with large returns do
not dominate the others. When a task ends, its policy at kept experiences is stored; later updates pull towards it
(without a policy: towards the values, in the unit of their task). A new task is explored with the heads of old ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from crystalrl.agents import DQN, SAC, TD3
from crystalrl.lanes import PerLane
from crystalrl.methods.base import Setup, refuse
from crystalrl.methods.clonex import ClonEx, ClonExParams


@dataclass(frozen=True)
class RECALLParams(ClonExParams):
    """Settings of RECALL; `policy` and `critic` may be one number per lane. Defaults: the authors' code."""

    policy: PerLane = 10.0
    """Factor of the distance from the stored policy, or from the stored Q values if there is no policy."""


class RECALL(ClonEx):
    """ClonEx, with replay of all tasks and normalised targets."""

    def __init__(self, setup: Setup, params: RECALLParams) -> None:
        agent = setup.agent
        refuse("recall", not isinstance(agent, DQN | SAC | TD3), "dqn, sac or td3", type(agent).__name__)
        refuse("recall", agent.scale is None, "pop_art = true", "false")
        super().__init__(setup, params)
