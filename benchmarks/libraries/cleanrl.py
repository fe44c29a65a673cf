"""The single-file agents with a uniform memory (the plain loop) and with a crystal memory."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from benchmarks.harness.timing import Step
from benchmarks.libraries.interface import BATCH, SLOTS, Library, example
from crystalrl import CrystalParams, Transition

FILES = {"DQN": example("cleanrl_dqn"), "SAC": example("cleanrl_sac")}


def kind(params: CrystalParams | None) -> str:
    return "uniform" if params is None else "crystal"


def train(algorithm: str, params: CrystalParams | None, seed: int, steps: int) -> list[float]:
    file = FILES[algorithm.split(",")[0]]
    returns: list[float] = file.train(file.Args(memory=kind(params), seed=seed, steps=steps), params)
    return returns


def stepper(name: str, params: CrystalParams | None) -> Step:
    file, discrete = FILES[name], name == "DQN"
    args = file.Args(memory=kind(params), capacity=SLOTS, batch_size=BATCH, **({"envs": 1} if discrete else {}))
    spaces = (4, 2) if discrete else (gym.make("Pendulum-v1"),)
    agent, memory = file.Agent(args, *spaces), file.make_memory(args, *spaces, params)
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(SLOTS + 1, 4 if discrete else 3)).astype(np.float32)
    for k in range(SLOTS):
        action = int(rng.integers(2)) if discrete else rng.uniform(-1, 1, 1).astype(np.float32)
        memory.add(Transition(obs[k], action, float(rng.normal()), obs[k + 1], bool(rng.random() < 0.01)))
    return lambda: agent.update(memory)


INTERFACE = Library(
    stock={"plain loop": None},
    packages={},
    networks="64 × 64",
    lengths={"DQN, CartPole-v1": 10_000, "SAC, Pendulum-v1": 5_000},
    train=train,
    stepper=stepper,
    without_anchors=False,
)
