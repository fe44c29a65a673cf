"""TorchRL: its losses with its own buffers, uniform and prioritized, and with a crystal memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from benchmarks.harness.timing import Step
from benchmarks.libraries import torchrl_extension
from benchmarks.libraries.interface import BATCH, SLOTS, Buffer, Library, example

COMPILED, MAKE = torchrl_extension.load()  # first: what follows imports TorchRL's samplers

from torchrl.data import LazyTensorStorage, PrioritizedSampler, TensorDictReplayBuffer  # noqa: E402

from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss  # noqa: E402
from tests.integrations.torchrl_models import data, loss_module  # noqa: E402

_, DQN, PENDULUM = (example(name) for name in ("training", "torchrl_dqn", "torchrl_pendulum"))


def prioritized(slots: int) -> PrioritizedSampler:
    return PrioritizedSampler(slots, alpha=0.6, beta=0.4)


def train(algorithm: str, buffer: Buffer, seed: int, steps: int) -> list[float]:
    name = algorithm.split(",")[0]
    agent = DQN.make(seed, steps) if name == "DQN" else PENDULUM.make(name, seed, steps)
    if buffer == "prioritized":
        np.random.seed(seed)  # noqa: NPY002 (its source of random numbers)
        agent, buffer = agent._replace(sampler=prioritized(agent.slots)), None
    returns: list[float] = DQN.learn(agent, buffer, seed, steps, None)
    return returns


def stepper(name: str, kind: Buffer) -> Step:
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


INTERFACE = Library(
    stock={"TorchRL's uniform": None, **({"TorchRL's prioritized": "prioritized"} if COMPILED else {})},
    packages={"torchrl": f"{version('torchrl')} ({MAKE})"},
    networks="16 × 16",
    lengths={"DQN, CartPole-v1": 6_000, "SAC, Pendulum-v1": 6_000, "TD3, Pendulum-v1": 8_000},
    train=train,
    stepper=stepper,
)
