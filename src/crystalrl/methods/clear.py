"""CLEAR (Rolnick et al. 2019) for off-policy agents: behavioural cloning from replay, without task boundaries.

Half of a batch is new and half is replayed, all with the TD loss. The replayed half is also pulled towards the policy
and the values recorded when it was stored. V-trace, which corrects the on-policy loss of the original for old
data, is not needed: the agents here are off-policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.base import Setup
from crystalrl.methods.recorded import Recorded, per_number
from crystalrl.types import Batch


@dataclass(frozen=True)
class CLEARParams:
    """Settings of CLEAR; `policy` and `value` may be one number per lane. Defaults: Rolnick et al. 2019."""

    policy: PerLane = 0.01
    """Factor of the KL divergence (TD3: squared distance) from the recorded policy; unused without a policy."""
    value: PerLane = 0.005
    """Factor of the squared distance from the recorded values, a mean over actions where there are several."""
    window: float = 0.5
    """The newest experiences, as a share of the memory's slots, are new; as `recent` of a reservoir memory."""

    def __post_init__(self) -> None:
        for name in ("policy", "value"):
            if not all(value >= 0 for value in lane_values(getattr(self, name))):
                raise ValueError(f"{name}: wanted numbers ≥ 0, got {getattr(self, name)}")


class CLEAR(Recorded):
    """Policy and value cloning on the replayed experiences."""

    def __init__(self, setup: Setup, params: CLEARParams) -> None:
        super().__init__(setup, params.window)
        lanes, device = setup.memory.lanes, setup.agent.theta.device
        costs = {"policy": params.policy, "q": params.value}
        self.costs = {key: per_lane(key, costs[key], lanes, device, torch.float32) for key in self.outputs}
        self.costs["q"] *= per_number(setup.agent, "q")

    def augment(self, batch: Batch) -> Batch:
        """The batch as it is; what is replayed is pulled."""
        buffer = self.in_buffer(batch)
        costs = {key: torch.where(buffer, cost, 0.0) for key, cost in self.costs.items()}
        self.pull = (batch, self.anchors(batch, costs))
        return batch
