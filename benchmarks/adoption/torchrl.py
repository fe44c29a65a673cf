"""TorchRL: its losses with its own buffers, uniform and prioritized, and with a crystal memory."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from benchmarks.adoption.extension import load

COMPILED, MAKE = load()  # first: what follows imports TorchRL's samplers

import torchrl_dqn  # noqa: E402
import torchrl_pendulum  # noqa: E402
from torchrl.data import LazyTensorStorage, PrioritizedSampler, TensorDictReplayBuffer  # noqa: E402

from benchmarks.adoption.overhead import BATCH, SLOTS  # noqa: E402
from crystalrl import CrystalParams  # noqa: E402
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss  # noqa: E402
from tests.integrations.torchrl_models import data, loss_module  # noqa: E402

STOCK: dict[str, Any] = {"TorchRL's uniform": None}
if COMPILED:
    STOCK["TorchRL's prioritized"] = "prioritized"
PACKAGES = {"torchrl": f"{version('torchrl')} ({MAKE})"}
WIDTHS = "16 × 16"
OURS = ("crystal memory without anchors", "crystal memory")
ALGORITHMS = ("DQN, CartPole-v1", "SAC, Pendulum-v1", "TD3, Pendulum-v1")
STEPS = ("DQN", "SAC", "TD3")
LENGTHS = {"DQN": 6_000, "SAC": 6_000, "TD3": 8_000}
"""Environment steps of a run."""


def prioritized(slots: int) -> PrioritizedSampler:
    return PrioritizedSampler(slots, alpha=0.6, beta=0.4)


def train(algorithm: str, buffer: CrystalParams | str | None, seed: int) -> list[float]:
    name = algorithm.split(",")[0]
    steps = LENGTHS[name]
    agent = torchrl_dqn.make(seed, steps) if name == "DQN" else torchrl_pendulum.make(name, seed, steps)
    if buffer == "prioritized":
        np.random.seed(seed)  # noqa: NPY002 (whence it draws)
        agent, buffer = agent._replace(sampler=prioritized(agent.slots)), None
    return torchrl_dqn.learn(agent, buffer, seed, steps, None)


def stepper(name: str, kind: CrystalParams | str | None) -> Callable[[], object]:
    loss: Any = loss_module(name)
    optimiser = torch.optim.Adam([p for p in loss.parameters() if p.requires_grad], lr=1e-3)
    options: dict[str, Any] = {"storage": LazyTensorStorage(SLOTS), "batch_size": BATCH}
    if kind == "prioritized":
        options["sampler"] = prioritized(SLOTS)
    elif kind is not None:
        loss = MemoryLoss(loss)
        sampler = CrystalSampler(loss, kind)
        options |= {"sampler": sampler, "writer": sampler.writer}
    buffer = TensorDictReplayBuffer(**options)
    for k in range(4):
        buffer.extend(data(name, SLOTS // 4, k))

    def step() -> None:
        batch = buffer.sample()
        losses = loss(batch)
        sum(value for key, value in losses.items() if key.startswith("loss")).mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        buffer.update_tensordict_priority(batch)

    return step
