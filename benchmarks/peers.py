"""Replay buffers and indices of other libraries. A buffer is full, and offers what it can do as named steps."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.harness.timing import Step

OBS, ACTION, BATCH, CHUNK = 39, 4, 256, 50_000


def experiences(count: int) -> dict[str, np.ndarray]:
    """Random columns [count, …], by the names of a Transition's fields."""
    source = np.random.default_rng(0)
    return {
        "obs": source.random((count, OBS), dtype=np.float32),
        "next_obs": source.random((count, OBS), dtype=np.float32),
        "action": source.random((count, ACTION), dtype=np.float32),
        "reward": source.random(count, dtype=np.float32),
    }


def cpprb(size: int) -> dict[str, Step]:
    from cpprb import PrioritizedReplayBuffer

    shapes = {"obs": {"shape": OBS}, "act": {"shape": ACTION}, "rew": {}, "next_obs": {"shape": OBS}, "done": {}}
    buffer, data = PrioritizedReplayBuffer(size, shapes), experiences(CHUNK)
    data = {**data, "act": data.pop("action"), "rew": data.pop("reward"), "done": np.zeros(CHUNK, np.float32)}
    for _ in range(size // CHUNK):
        buffer.add(**data)
    td, number = np.random.default_rng(0).random(BATCH), cycle(range(1000))

    def add() -> None:
        k = next(number)
        buffer.add(**{name: column[k] for name, column in data.items()})

    def add_eight() -> None:
        some = slice(k := next(number), k + 8)
        buffer.add(**{name: column[some] for name, column in data.items()})

    def sample_update() -> None:
        buffer.update_priorities(buffer.sample(BATCH, beta=0.4)["indexes"], td)

    return {"add": add, "add_eight": add_eight, "sample_update": sample_update}


def stable_baselines3(size: int) -> dict[str, Step]:
    from gymnasium.spaces import Box
    from stable_baselines3.common.buffers import ReplayBuffer

    spaces = Box(-1, 1, (OBS,), np.float32), Box(-1, 1, (ACTION,), np.float32)
    buffer, data = ReplayBuffer(size, *spaces, handle_timeout_termination=False), experiences(CHUNK)
    for start in range(0, size, CHUNK):
        part = slice(start, start + CHUNK)
        buffer.observations[part, 0], buffer.next_observations[part, 0] = data["obs"], data["next_obs"]
        buffer.actions[part, 0], buffer.rewards[part, 0] = data["action"], data["reward"]
    buffer.full = True
    return {"sample": lambda: buffer.sample(BATCH)}


def faiss_index(size: int, lists: int, probes: int) -> Any:
    """An empty index of vectors [size] in half precision, with inverted lists."""
    import faiss

    kind = faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatL2(size), size, lists, kind, faiss.METRIC_L2, False)
    index.cp.niter, index.cp.min_points_per_centroid, index.nprobe = 10, 1, probes
    return index
