"""Memories do not depend on torch's default dtype."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
import numpy as np
import torch
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl import Evaluation, Transition

torch.set_default_dtype(getattr(torch, sys.argv[2]))
anchored = CrystalParams.anchored(time_unit=40, alpha=0.5)
memory = {
    "uniform": lambda **shape: UniformMemory(90, **shape),
    "prioritized": lambda **shape: PrioritizedMemory(90, **shape),
    "reservoir": lambda **shape: ReservoirMemory(90, **shape),
    "default": lambda **shape: CrystalMemory(90, params=CrystalParams(time_unit=40, every=40), **shape),
    "paper": lambda **shape: CrystalMemory(90, params=CrystalParams.paper(every=40), **shape),
    "anchored": lambda **shape: CrystalMemory(90, params=anchored, anchor={"q": (2,)}, **shape),
    "knn": lambda **shape: CrystalMemory(90, params=CrystalParams(time_unit=40, every=40, novelty="knn"), **shape),
}[sys.argv[1]](obs=(2,), action=3, n_step=2, seed=0)
rng, seen = np.random.default_rng(0), hashlib.sha256()
for step in range(300):
    obs, after = rng.normal(size=(2, 2)).astype(np.float32)
    memory.add(Transition(obs, int(rng.integers(3)), float(rng.normal()), after, bool(rng.random() < 0.05)))
    if step > 5:
        batch = memory.sample(8)
        for name in ("obs", "reward", "discount", "weight"):
            values = getattr(batch, name)
            assert values.dtype == torch.float32, (name, values.dtype)
            seen.update(values.numpy().tobytes())
        memory.update(batch.index, batch.reward)
    if memory.due:
        memory.consolidate(lambda batch: Evaluation(batch.reward, {"q": batch.obs}))
for name, tensor in sorted(memory.state_dict().items()):
    seen.update(f"{name} {tensor.dtype}".encode() + tensor.numpy().tobytes())
print(seen.hexdigest())
"""


def life(kind: str, dtype: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, kind, dtype], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["uniform", "prioritized", "reservoir", "default", "paper", "anchored", "knn"])
def test_a_memory_lives_the_same_life_when_the_default_dtype_is_float64(kind: str) -> None:
    assert life(kind, "float64") == life(kind, "float32")
