"""Dark experience replay++ (Buzzega et al. 2020): DER, with β times the TD loss on the buffer, too."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.base import Setup
from crystalrl.methods.der import DER, DERParams


@dataclass(frozen=True)
class DERPPParams(DERParams):
    """Settings of dark experience replay++; `alpha` and `beta` may be one number per lane."""

    beta: PerLane = 0.5
    """Factor of the TD loss of the buffer. 0.5: the authors' library, for CIFAR-100 with 500 slots."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(value >= 0 for value in lane_values(self.beta)):
            raise ValueError(f"beta: wanted numbers ≥ 0, got {self.beta}")


class DERPP(DER):
    """The buffer has a TD loss as well."""

    def __init__(self, setup: Setup, params: DERPPParams) -> None:
        super().__init__(setup, params)
        lanes, device = setup.memory.lanes, setup.agent.theta.device
        self.beta = per_lane("beta", params.beta, lanes, device, torch.float32)
