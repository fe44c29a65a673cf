"""Tianshou: its algorithms with its own prioritized buffer and with a crystal memory."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import tianshou_dqn
import tianshou_sac
from tianshou.data import PrioritizedVectorReplayBuffer

from benchmarks.adoption.overhead import BATCH, SLOTS
from crystalrl import CrystalParams
from crystalrl.integrations.tianshou import CrystalReplayBuffer
from tests.integrations.tianshou_models import ENVS, algorithm, step

STOCK: dict[str, Any] = {"Tianshou's prioritized": None}
PACKAGES = {"tianshou": version("tianshou")}
WIDTHS = "16 × 16"
OURS = ("crystal memory without anchors", "crystal memory")
ALGORITHMS = ("DQN, CartPole-v1", "SAC, Pendulum-v1")
STEPS = ("DQN", "SAC")


def train(algorithm: str, params: CrystalParams | None, seed: int) -> list[float]:
    dqn = algorithm.startswith("DQN")
    return tianshou_dqn.train(params, seed, 6_000) if dqn else tianshou_sac.train(params, seed, 5_000)


def stepper(name: str, params: CrystalParams | None) -> Callable[[], object]:
    made, rng = algorithm(name), np.random.default_rng(0)
    buffer: Any = PrioritizedVectorReplayBuffer(SLOTS, ENVS, alpha=0.6, beta=0.4)
    if params is not None:
        buffer = CrystalReplayBuffer(SLOTS, ENVS, params)
        buffer.attach(made)
    for _ in range(SLOTS // ENVS):
        buffer.add(step(name, rng), buffer_ids=np.arange(ENVS))
    made.policy.is_within_training_step = True
    return lambda: made.update(buffer=buffer, sample_size=BATCH)
