"""With c ≡ 0 and no gate our buffer is plain replay: SAC and TD3 must learn as well as with SB3's own.

HalfCheetah-v5 takes hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.harness.pages import table
from benchmarks.harness.results import Setting
from benchmarks.libraries.learning import PLAIN, Runs, compare, difference

ALGORITHMS = ("SAC", "TD3")
BUFFERS = ("stock", "plain")


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
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.noise import NormalActionNoise

    from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer

    torch.set_num_threads(1)
    env, ours = make_vec_env(task.env, seed=seed), buffer == "plain"
    settings = deepcopy(task.settings)  # SB3 writes into policy_kwargs
    if algorithm == "TD3":
        size = env.action_space.shape
        settings["action_noise"] = NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
    if ours:
        settings |= {"replay_buffer_class": CrystalReplayBuffer, "replay_buffer_kwargs": {"params": PLAIN}}
    kind = getattr(stable_baselines3, algorithm)
    model = kind("MlpPolicy", env, buffer_size=task.slots, seed=seed, device="cpu", **settings)
    model.learn(task.steps, callback=Consolidate() if ours else None)
    score, _ = evaluate_policy(model, make_vec_env(task.env, 10, seed=10_000 + seed), 20)
    return float(score)


def keys(seeds: int, algorithms: tuple[str, ...] = ALGORITHMS) -> list[tuple[str, str, int]]:
    return [(algorithm, buffer, seed) for seed in range(seeds) for algorithm in algorithms for buffer in BUFFERS]


def measure(setting: Setting, name: str) -> Iterator[Runs]:
    task = TASKS[name]
    if setting.quick:
        task = replace(task, steps=300, seeds=2, settings={**task.settings, "learning_starts": 200})
    return compare(setting.stored, keys(task.seeds), partial(run, task))


def block(runs: Runs, name: str) -> str:
    rows = []
    for algorithm in dict.fromkeys(r["algorithm"] for r in runs):
        d = difference(runs, algorithm)
        stock = f"{d['stock']:.0f} ± {d['stock_half_interval']:.0f}"
        rows.append([algorithm, stock, f"{d['ours']:.0f}", f"{d['difference']:+.1f} [{d['low']:.1f}, {d['high']:.1f}]"])
    first = f"{TASKS[name].env}, {len({r['seed'] for r in runs})} seeds"
    return table([first, "SB3's own, 95 % interval", "ours with c ≡ 0", "difference, 95 % interval (Welch)"], rows)
