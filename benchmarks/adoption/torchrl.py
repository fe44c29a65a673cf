"""TorchRL: its losses with its own uniform buffer and with a crystal memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchrl_dqn
import torchrl_pendulum
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from benchmarks.adoption.overhead import BATCH, SLOTS
from crystalrl import CrystalParams
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss
from tests.integrations.torchrl_models import data, loss_module

STOCK, PACKAGES, WIDTHS = "TorchRL's uniform", ("torchrl",), "16 × 16"
OURS = ("crystal memory without anchors", "crystal memory")
ALGORITHMS = ("DQN, CartPole-v1", "SAC, Pendulum-v1", "TD3, Pendulum-v1")
STEPS = ("DQN", "SAC", "TD3")


def train(algorithm: str, params: CrystalParams | None, seed: int) -> list[float]:
    name = algorithm.split(",")[0]
    if name == "DQN":
        return torchrl_dqn.train(params, seed, 6_000)
    return torchrl_pendulum.train(params, seed, 6_000, algorithm=name)


def stepper(name: str, params: CrystalParams | None) -> Callable[[], object]:
    loss: Any = loss_module(name)
    optimiser = torch.optim.Adam([p for p in loss.parameters() if p.requires_grad], lr=1e-3)
    options: dict[str, Any] = {"storage": LazyTensorStorage(SLOTS), "batch_size": BATCH}
    if params is not None:
        loss = MemoryLoss(loss)
        sampler = CrystalSampler(loss, params)
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
