"""With c ≡ 0 a crystal memory is plain replay, batch for batch."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.libraries.learning import PLAIN
from crystalrl import CrystalMemory, Transition, UniformMemory


def test_with_c_zero_every_batch_is_that_of_a_uniform_memory() -> None:
    spaces = {"obs": (3,), "action": 2, "envs": 4, "gamma": 0.9, "seed": 7}
    ours, uniform = CrystalMemory(600, params=PLAIN, **spaces), UniformMemory(600, **spaces)
    rng, consolidations = np.random.default_rng(0), 0
    for _ in range(500):
        obs, after = rng.normal(size=(2, 4, 3)).astype(np.float32)
        step = Transition(obs, rng.integers(2, size=4), rng.normal(size=4), after, rng.random(4) < 0.1)
        for memory in (ours, uniform):
            memory.add(step)
        one, two = ours.sample(32), uniform.sample(32)
        for name in ("obs", "action", "reward", "next_obs", "discount", "weight"):
            assert torch.equal(getattr(one, name), getattr(two, name)), name
        ours.update(one.index, torch.rand(32))
        if ours.due:
            ours.consolidate(lambda batch: torch.rand(len(batch.reward)))
            consolidations += 1
    assert consolidations > 5
