"""The single-file agents with a uniform memory (the plain loop) and with a crystal memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cleanrl_dqn
import cleanrl_sac
import gymnasium as gym
import numpy as np

from benchmarks.adoption.overhead import BATCH, SLOTS
from crystalrl import CrystalParams, Transition

STOCK: dict[str, Any] = {"plain loop": None}
PACKAGES: dict[str, str] = {}
WIDTHS = "64 × 64"
OURS = ("crystal memory",)
ALGORITHMS = ("DQN, CartPole-v1", "SAC, Pendulum-v1")
STEPS = ("DQN", "SAC")
FILES = {"DQN": cleanrl_dqn, "SAC": cleanrl_sac}


def kind(params: CrystalParams | None) -> str:
    return "uniform" if params is None else "crystal"


def train(algorithm: str, params: CrystalParams | None, seed: int) -> list[float]:
    agent = FILES[algorithm.split(",")[0]]
    return agent.train(agent.Args(memory=kind(params), seed=seed), params)


def stepper(name: str, params: CrystalParams | None) -> Callable[[], object]:
    options = {"memory": kind(params), "capacity": SLOTS, "batch_size": BATCH}
    rng = np.random.default_rng(0)
    if name == "DQN":
        args = cleanrl_dqn.Args(**options, envs=1)
        agent, memory = cleanrl_dqn.Agent(args, 4, 2), cleanrl_dqn.make_memory(args, 4, 2, params)
    else:
        env = gym.make("Pendulum-v1")
        args = cleanrl_sac.Args(**options)
        agent, memory = cleanrl_sac.Agent(args, env), cleanrl_sac.make_memory(args, env, params)
    obs = rng.normal(size=(SLOTS + 1, 4 if name == "DQN" else 3)).astype(np.float32)
    for k in range(SLOTS):
        action = int(rng.integers(2)) if name == "DQN" else rng.uniform(-1, 1, 1).astype(np.float32)
        memory.add(Transition(obs[k], action, float(rng.normal()), obs[k + 1], bool(rng.random() < 0.01)))
    return lambda: agent.update(memory)
