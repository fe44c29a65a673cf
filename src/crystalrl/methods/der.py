"""Dark experience replay (Buzzega et al. 2020): old experiences are replayed through recorded outputs.

Loss = mean over the stream of the TD loss + α · mean over the buffer of (y − recorded y)², where the stream are the
newest experiences in a batch and the buffer the older ones. Both means are over the whole batch, so where each is half
of the batch, each counts half; the second is also over the numbers in y, as in the authors' library. Between Gaussian
policies the distance is a KL divergence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.base import Setup
from crystalrl.methods.recorded import Recorded, per_number
from crystalrl.types import Batch


@dataclass(frozen=True)
class DERParams:
    """Settings of dark experience replay; `alpha` may be one number per lane."""

    alpha: PerLane = 0.3
    """Factor of the distance to the recorded outputs. 0.3: the authors' library, for CIFAR-100 with 500 slots."""
    window: float = 0.5
    """The newest experiences, as a share of the memory's slots, are the stream; as `recent` of a reservoir memory."""

    def __post_init__(self) -> None:
        if not all(value >= 0 for value in lane_values(self.alpha)):
            raise ValueError(f"alpha: wanted numbers ≥ 0, got {self.alpha}")


class DER(Recorded):
    """The buffer has no TD loss, only the pull towards its recorded outputs."""

    def __init__(self, setup: Setup, params: DERParams) -> None:
        super().__init__(setup, params.window)
        lanes, device = setup.memory.lanes, setup.agent.theta.device
        self.alpha = per_lane("alpha", params.alpha, lanes, device, torch.float32)
        self.beta = torch.zeros_like(self.alpha)

    def augment(self, batch: Batch) -> Batch:
        """Weights 1 in the stream and β in the buffer, which is pulled with the factor α."""
        buffer = self.in_buffer(batch)
        weight = torch.where(buffer, self.beta * batch.weight, batch.weight)
        pull = torch.where(buffer, self.alpha, 0.0)
        pulls = {key: pull * per_number(self.agent, key) for key in self.outputs}
        self.pull = (batch, self.anchors(batch, pulls))
        return replace(batch, weight=weight)
