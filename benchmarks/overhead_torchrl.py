"""Time of a gradient step of TorchRL with its own uniform buffer and with a crystal memory.

python benchmarks/overhead_torchrl.py --json benchmarks/results/overhead_torchrl.json
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT)]

import torch  # noqa: E402
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer  # noqa: E402

from benchmarks.overhead import milliseconds, report  # noqa: E402
from crystalrl import CrystalParams  # noqa: E402
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss  # noqa: E402
from tests.integrations.torchrl_models import data, loss_module  # noqa: E402

SLOTS, BATCH = 20_000, 256
SETTING = (
    f"{SLOTS:,} experiences, networks 16 × 16, batch {BATCH}, processor time in interleaved rounds; sampling, loss, "
)
SETTING += "backward pass, optimiser. Consolidation not included."


def stepper(name: str, kind: str) -> Callable[[], object]:
    loss: Any = loss_module(name)
    optimiser = torch.optim.Adam([p for p in loss.parameters() if p.requires_grad], lr=1e-3)
    options: dict[str, Any] = {"storage": LazyTensorStorage(SLOTS), "batch_size": BATCH}
    if kind != "TorchRL's uniform":
        loss = MemoryLoss(loss)
        plain = CrystalParams.anchored(kappa=0.0, settle=None)
        sampler = CrystalSampler(loss, plain if "without" in kind else None)
        options |= {"sampler": sampler, "writer": sampler.writer}
    buffer = TensorDictReplayBuffer(**options)
    for k in range(4):
        buffer.extend(data(name, SLOTS // 4, k))

    def step() -> None:
        losses = loss(buffer.sample())
        sum(value for key, value in losses.items() if key.startswith("loss")).mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def measure() -> dict[str, dict[str, float]]:
    kinds = ("TorchRL's uniform", "crystal memory without anchors", "crystal memory")
    return {name: milliseconds({kind: stepper(name, kind) for kind in kinds}) for name in ("DQN", "SAC", "TD3")}


if __name__ == "__main__":
    report(__doc__, SETTING, "torchrl", measure)
