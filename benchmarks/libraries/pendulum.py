"""SAC of Stable-Baselines3 learns two Pendulums one after the other, with buffers of several sizes.

A is Pendulum-v1, B has the opposite torque; the observation includes the task. Settings are those of RL Zoo for
Pendulum (learning rate 10⁻³, otherwise SB3's), smaller networks, and the same for both buffers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from time import process_time
from typing import Any

import numpy as np
import torch
from scipy import stats

from benchmarks.harness.pages import table
from benchmarks.harness.results import Setting

Runs = list[dict[str, Any]]
SIZES, SEEDS, STEPS = (2_000, 5_000, 20_000), 10, 6_000
BUFFERS = {"stock": "SB3's own", "crystal": "`CrystalReplayBuffer`"}
MEASURES = {"first": "A after A", "forgetting": "forgetting of A", "second": "B after B"}


def task(mirrored: bool) -> Any:
    """Pendulum whose observation ends with the task."""
    import gymnasium as gym

    code = np.eye(2, dtype=np.float32)[int(mirrored)]
    space = gym.spaces.Box(-8, 8, (5,), np.float32)
    env = gym.wrappers.TransformObservation(gym.make("Pendulum-v1"), lambda o: np.concatenate([o, code]), space)
    return gym.wrappers.TransformAction(env, lambda action: -action, env.action_space) if mirrored else env


def run(buffer: str, slots: int, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """Mean returns of ten episodes of A and B, after each task."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.evaluation import evaluate_policy

    from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer

    torch.set_num_threads(1)
    start, scores = process_time(), []
    options: dict[str, Any] = {"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [64, 64]}, "buffer_size": slots}
    kind = CrystalReplayBuffer if buffer == "crystal" else None
    model = SAC("MlpPolicy", task(False), replay_buffer_class=kind, seed=seed, device="cpu", **options)
    for mirrored in (False, True):
        model.set_env(task(mirrored))
        model.learn(steps, callback=None if kind is None else Consolidate())
        scores.append([_score(evaluate_policy, model, other, seed) for other in (False, True)])
    return {"buffer": buffer, "slots": slots, "seed": seed, "scores": scores, "seconds": process_time() - start}


def _score(evaluate_policy: Any, model: Any, mirrored: bool, seed: int) -> float:
    env = task(mirrored)
    env.reset(seed=10_000 + seed)
    return float(evaluate_policy(model, env, 10, warn=False)[0])


def measure(setting: Setting) -> Iterator[Runs]:
    """What is stored is not run again. CRYSTALRL_WORKERS processes work at the same time."""
    runs = list(setting.stored or [])
    done = {(one["buffer"], one["slots"], one["seed"]) for one in runs}
    sizes, seeds, steps = ((500,), 2, 600) if setting.quick else (SIZES, SEEDS, STEPS)
    todo = [(b, n, s) for s in range(seeds) for n in sizes for b in BUFFERS if (b, n, s) not in done]
    with ProcessPoolExecutor(int(os.environ.get("CRYSTALRL_WORKERS", "1"))) as pool:
        for future in as_completed([pool.submit(run, *each, steps) for each in todo]):
            runs.append(future.result())
            yield runs


def values(runs: Runs, buffer: str, slots: int) -> dict[str, np.ndarray]:
    """Return on A after A, how much of it is lost after B, and return on B after B, by seed."""
    mine = sorted((r for r in runs if (r["buffer"], r["slots"]) == (buffer, slots)), key=lambda r: int(r["seed"]))
    scores = np.array([one["scores"] for one in mine])
    return {"first": scores[:, 0, 0], "forgetting": scores[:, 0, 0] - scores[:, 1, 0], "second": scores[:, 1, 1]}


def block(runs: Runs) -> str:
    rows = []
    sizes = sorted({one["slots"] for one in runs})
    for slots in sizes:
        found = {buffer: values(runs, buffer, slots) for buffer in BUFFERS}
        for name, label in MEASURES.items():
            ours, stock = found["crystal"][name], found["stock"][name]
            test = stats.ttest_ind(ours, stock, equal_var=False)
            low, high = test.confidence_interval()
            difference = f"{ours.mean() - stock.mean():+.0f} [{low:.0f}, {high:.0f}]"
            row = [f"{slots:,}", label, f"{stock.mean():.0f}", f"{ours.mean():.0f}", difference, f"{test.pvalue:.2g}"]
            rows.append(row)
    seeds = min(len(values(runs, buffer, slots)["first"]) for slots in sizes for buffer in BUFFERS)
    head = f"{seeds} seeds, {STEPS:,} steps per task, mean returns (about −150 is solved):"
    columns = ["slots", "", *BUFFERS.values(), "difference, 95 % interval", "Welch p"]
    return "\n\n".join([head, table(columns, rows), "Forgetting is the return on A that is lost while B is learnt."])
