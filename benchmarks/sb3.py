"""Time of a gradient step of Stable-Baselines3 with its own buffer and with ours, in interleaved rounds.

    python benchmarks/sb3.py --json benchmarks/results/sb3.json

Networks 256 × 256, batch 256, N = 100,000 experiences of 17 numbers, half of them crystals. Times are of the processor,
one thread, so that a busy machine does not matter. Consolidation is timed apart, in a smaller memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from sb3_contrib import QRDQN, TQC
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from crystalrl import Transition
from crystalrl.integrations.sb3 import CrystalReplayBuffer, PrioritizedReplayBuffer

BUFFERS: dict[str, Any] = {"stock": None, "prioritized": PrioritizedReplayBuffer, "crystal": CrystalReplayBuffer}
ENVS = 100
ALGORITHMS: dict[str, Any] = {"SAC": SAC, "TD3": TD3, "DQN": DQN, "TQC": TQC, "QRDQN": QRDQN}


class Spaces(gym.Env[Any, Any]):
    """Only spaces: nothing is ever stepped. There are many, so that the buffers fill quickly."""

    observation_space = gym.spaces.Box(-10, 10, (17,), np.float32)

    def __init__(self, discrete: bool) -> None:
        self.action_space = gym.spaces.Discrete(6) if discrete else gym.spaces.Box(-1, 1, (6,), np.float32)


def model(name: str, buffer: str, slots: int) -> Any:
    """A model with a full buffer."""
    discrete = "DQN" in name
    made = ALGORITHMS[name](
        "MlpPolicy",
        DummyVecEnv([lambda: Spaces(discrete)] * ENVS),
        buffer_size=slots,
        replay_buffer_class=BUFFERS[buffer],
        policy_kwargs={"net_arch": [256, 256], **({"n_quantiles": 50} if name == "QRDQN" else {})},
        seed=0,
        device="cpu",
    )
    made._logger = Logger(None, [])
    if buffer != "stock":
        made.replay_buffer.attach(made)
    rng, steps = np.random.default_rng(0), slots // ENVS
    observations = rng.normal(size=(steps + 1, ENVS, 17)).astype(np.float32)
    shape = (steps, ENVS)
    actions = rng.integers(0, 6, shape) if discrete else rng.uniform(-1, 1, (*shape, 6)).astype(np.float32)
    rewards, c = rng.normal(size=shape).astype(np.float32), rng.choice([0.1, 0.5, 0.9], shape, p=[0.375, 0.125, 0.5])
    for k in range(steps):
        obs, next_obs, done = observations[k], observations[k + 1], np.full(ENVS, k % 200 == 199)
        if buffer == "crystal":
            step = Transition(obs, actions[k], rewards[k], next_obs, done)
            made.replay_buffer.memory.add(step, crystallization=c[k].tolist())
        else:
            made.replay_buffer.add(obs, next_obs, actions[k], rewards[k], done, [{}] * ENVS)
    return made


def compare(name: str, slots: int, rounds: int, steps: int) -> dict[str, Any]:
    models = {buffer: model(name, buffer, slots) for buffer in BUFFERS}
    for one in models.values():
        one.train(gradient_steps=20, batch_size=256)
    times: dict[str, list[float]] = {buffer: [] for buffer in BUFFERS}
    for _ in range(rounds):
        for buffer, one in models.items():
            start = process_time()
            one.train(gradient_steps=steps, batch_size=256)
            times[buffer].append((process_time() - start) / steps)
    ratios = {
        buffer: statistics.median(a / b for a, b in zip(times[buffer], times["stock"], strict=True))
        for buffer in BUFFERS
    }
    milliseconds = {buffer: 1e3 * statistics.median(values) for buffer, values in times.items()}
    return {"milliseconds": milliseconds, "ratio": ratios}


def consolidation(slots: int) -> dict[str, Any]:
    """Seconds of one consolidation of SAC's memory, and the environment steps between two of them."""
    buffer = model("SAC", "crystal", slots).replay_buffer
    buffer.consolidate()
    start = process_time()
    buffer.consolidate()
    return {"slots": slots, "seconds": process_time() - start, "every": buffer.params.interval(slots)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--slots", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=8, help="gradient steps per round")
    parser.add_argument("--consolidate", type=int, default=10_000, help="slots where consolidation is timed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    result = {
        "slots": options.slots,
        "algorithms": {name: compare(name, options.slots, options.rounds, options.steps) for name in ALGORITHMS},
        "consolidation": consolidation(options.consolidate),
        "machine": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "stable-baselines3": stable_baselines3.__version__,
            "threads": torch.get_num_threads(),
        },
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
