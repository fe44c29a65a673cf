"""Tianshou: its algorithms with its own prioritized buffer and with a crystal memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from tianshou.data import PrioritizedVectorReplayBuffer

from benchmarks.harness.timing import Step
from benchmarks.libraries.interface import BATCH, SLOTS, Library, example
from crystalrl import CrystalParams
from crystalrl.integrations.tianshou import CrystalReplayBuffer
from tests.integrations.tianshou_models import ENVS, algorithm, step

FILES = {name: example(file) for name, file in (("", "training"), ("DQN", "tianshou_dqn"), ("SAC", "tianshou_sac"))}


def train(name: str, params: CrystalParams | None, seed: int, steps: int) -> list[float]:
    returns: list[float] = FILES[name.split(",")[0]].train(params, seed, steps)
    return returns


def stepper(name: str, params: CrystalParams | None) -> Step:
    made, rng = algorithm(name), np.random.default_rng(0)
    buffer: Any = PrioritizedVectorReplayBuffer(SLOTS, ENVS, alpha=0.6, beta=0.4)
    if params is not None:
        buffer = CrystalReplayBuffer(SLOTS, ENVS, params)
        buffer.attach(made)
    for _ in range(SLOTS // ENVS):
        buffer.add(step(name, rng), buffer_ids=np.arange(ENVS))
    made.policy.is_within_training_step = True
    return lambda: made.update(buffer=buffer, sample_size=BATCH)


INTERFACE = Library(
    stock={"Tianshou's prioritized": None},
    packages={"tianshou": version("tianshou")},
    networks="16 × 16",
    lengths={"DQN, CartPole-v1": 6_000, "SAC, Pendulum-v1": 5_000},
    train=train,
    stepper=stepper,
)
