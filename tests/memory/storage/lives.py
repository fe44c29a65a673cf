"""Memories in the middle of their life, for tests of files."""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.memory import ReplayMemory
from tests.experience import MIXED, random_step, stacked


def lively(kind: type[ReplayMemory], seed: int = 3, **options: Any) -> ReplayMemory:
    """A memory in the middle of its life: full, drawn from, updated, with open n-step windows."""
    memory = kind(60, **{**MIXED, "lanes": 2, "envs": 2, "n_step": 3, "context": True, "seed": seed, **options})
    work(memory, 60, np.random.default_rng(seed))
    return memory


def work(memory: ReplayMemory, steps: int, rng: np.random.Generator) -> None:
    mixed = isinstance(memory.spec.obs, dict)
    for k in range(steps):
        rows = [
            [random_step(rng, mixed, memory.spec.context, ending=0.05) for _ in range(memory.spec.envs)]
            for _ in range(memory.lanes)
        ]
        memory.add(stacked(rows, memory.spec.lanes))
        if k > 20 and k % 3 == 0:
            batch = memory.sample(16)
            memory.update(batch, rng.normal(size=tuple(batch.index.shape)))
    if memory.ledger.count.min() > 0:
        memory.sample(8)  # drawn but not yet updated
