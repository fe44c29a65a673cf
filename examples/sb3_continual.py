"""DQN learns three CartPoles one after another, then the first again: how much of each task does it still know?

    python examples/sb3_continual.py            # 10 seeds × 3 buffers: results and a figure; finished runs are kept

A: CartPole. B: mirrored motor. C: long pole, strong gravity. The observation includes the task. The memory holds an
eighth of a task's experiences, so a plain buffer soon has none of earlier tasks. Settings are the same for all buffers.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from continual_figure import draw
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer, PrioritizedReplayBuffer

TASKS = {"A": {}, "B": {"force_mag": -10.0}, "C": {"length": 1.5, "polemass_length": 0.15, "gravity": 15.0}}
STAGES = (("A", 8000), ("B", 8000), ("C", 8000), ("A", 2000))
BUFFERS: dict[str, Any] = {"stock": None, "prioritized": PrioritizedReplayBuffer, "crystal": CrystalReplayBuffer}
SETTINGS: dict[str, Any] = {
    "buffer_size": 1000, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.98, "learning_starts": 500,
    "train_freq": 1, "gradient_steps": 4, "tau": 0.02, "target_update_interval": 8, "exploration_fraction": 0.3,
}  # fmt: skip


class Task(gym.ObservationWrapper[Any, Any, Any]):
    def __init__(self, name: str) -> None:
        super().__init__(gym.make("CartPole-v1", max_episode_steps=200))
        for constant, value in TASKS[name].items():
            setattr(self.unwrapped, constant, value)
        self.code = np.eye(3, dtype=np.float32)[list(TASKS).index(name)]
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (7,), np.float32)

    def observation(self, observation: Any) -> Any:
        return np.concatenate([observation, self.code], dtype=np.float32)


def run(buffer: str, seed: int, scale: float = 1.0) -> dict[str, Any]:
    start, scores = process_time(), []  # after each stage: mean return of 10 episodes on every task, at most 200
    env = {name: make_vec_env(lambda name=name: Task(name), 8, seed=seed) for name in TASKS}
    model = DQN("MlpPolicy", env["A"], replay_buffer_class=BUFFERS[buffer], seed=seed, device="cpu", **SETTINGS)
    for name, steps in STAGES:
        model.set_env(env[name])
        model.learn(int(scale * steps), callback=None if buffer == "stock" else Consolidate())
        tests = {task: make_vec_env(lambda task=task: Task(task), 10, seed=10_000 + seed) for task in TASKS}
        scores.append({task: float(evaluate_policy(model, test, 10)[0]) for task, test in tests.items()})
    return {"buffer": buffer, "seed": seed, "scores": scores, "seconds": process_time() - start}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("sb3_continual.json"))
    options = parser.parse_args()
    runs = json.loads(options.out.read_text()) if options.out.exists() else []
    done = [(one["buffer"], one["seed"]) for one in runs]
    todo = [(buffer, seed) for seed in range(options.seeds) for buffer in BUFFERS if (buffer, seed) not in done]
    with ProcessPoolExecutor(options.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for future in as_completed([pool.submit(run, *each, options.scale) for each in todo]):
            runs.append(future.result())
            options.out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
    draw(runs, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
