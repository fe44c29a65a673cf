"""With c ≡ 0 and the gate off, our buffer is plain replay: SAC and TD3 must learn as with SB3's own.

    python benchmarks/sb3_equivalence.py --task pendulum --json benchmarks/results/sb3_pendulum.json
    python benchmarks/sb3_equivalence.py --task halfcheetah --json benchmarks/results/sb3_halfcheetah.json

Every run is stored when it ends, so an interrupted command goes on where it was. HalfCheetah-v5 takes hours.
"""

from __future__ import annotations

import argparse
import json
import sys
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise

from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer

sys.path += [str(Path(__file__).parent.parent)]

from benchmarks.learning import PLAIN, compare, difference

ALGORITHMS: dict[str, Any] = {"SAC": SAC, "TD3": TD3}
BUFFERS: dict[str, Any] = {
    "stock": (None, {}),
    "plain": (CrystalReplayBuffer, {"params": PLAIN}),
}


@dataclass(frozen=True)
class Task:
    env: str
    steps: int
    seeds: int
    slots: int
    settings: dict[str, Any]


SMALL: dict[str, Any] = {
    "learning_rate": 2e-3, "batch_size": 64, "gamma": 0.95, "tau": 0.02, "learning_starts": 500,
    "policy_kwargs": {"net_arch": [64, 64]},
}  # fmt: skip
"""Chosen on seeds from 1000 on."""
TASKS = {
    "pendulum": Task("Pendulum-v1", 5_000, 5, 5_000, SMALL),
    "halfcheetah": Task("HalfCheetah-v5", 100_000, 3, 100_000, {"learning_starts": 10_000}),
}


def run(task: Task, algorithm: str, buffer: str, seed: int) -> float:
    """Mean return of 20 episodes after learning."""
    torch.set_num_threads(1)
    kind, kwargs = BUFFERS[buffer]
    env = make_vec_env(task.env, seed=seed)
    settings = deepcopy(task.settings)  # SB3 writes into policy_kwargs
    if algorithm == "TD3":
        size = env.action_space.shape
        settings["action_noise"] = NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
    model = ALGORITHMS[algorithm](
        "MlpPolicy", env, buffer_size=task.slots, replay_buffer_class=kind, replay_buffer_kwargs=kwargs, seed=seed,
        device="cpu", **settings,
    )  # fmt: skip
    model.learn(task.steps, callback=Consolidate() if kind else None)
    score, _ = evaluate_policy(model, make_vec_env(task.env, 10, seed=10_000 + seed), 20)
    return float(score)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=list(TASKS), default="pendulum")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    task = TASKS[options.task]
    compare(options.json, ALGORITHMS, BUFFERS, range(task.seeds), partial(run, task))
    runs = json.loads(options.json.read_text())
    for algorithm in ALGORITHMS:
        print(algorithm, difference(runs, algorithm))


if __name__ == "__main__":
    main()
