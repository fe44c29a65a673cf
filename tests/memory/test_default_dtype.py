"""Memories do not depend on torch's default dtype."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import hashlib, sys
import numpy as np
import torch
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl import Evaluation, Transition

torch.set_default_dtype(getattr(torch, sys.argv[1]))
shape = {"obs": (2,), "action": 3, "n_step": 2, "seed": 0}
anchored = CrystalParams.anchored(time_unit=40, alpha=0.5)
knn = CrystalParams.repaired(time_unit=40, every=40, novelty="knn")
memories = {
    "uniform": UniformMemory(90, **shape),
    "prioritized": PrioritizedMemory(90, **shape),
    "reservoir": ReservoirMemory(90, **shape),
    "default": CrystalMemory(90, params=CrystalParams.repaired(time_unit=40, every=40), **shape),
    "paper": CrystalMemory(90, params=CrystalParams.paper(every=40), **shape),
    "anchored": CrystalMemory(90, params=anchored, anchor={"q": (2,)}, **shape),
    "knn": CrystalMemory(90, params=knn, **shape),
}
for kind, memory in memories.items():
    rng, seen = np.random.default_rng(0), hashlib.sha256()
    for step in range(300):
        obs, after = rng.normal(size=(2, 2)).astype(np.float32)
        memory.add(Transition(obs, int(rng.integers(3)), float(rng.normal()), after, bool(rng.random() < 0.05)))
        if step > 5:
            batch = memory.sample(8)
            for name in ("obs", "reward", "discount", "weight"):
                values = getattr(batch, name)
                assert values.dtype == torch.float32, (kind, name, values.dtype)
                seen.update(values.numpy().tobytes())
            memory.update(batch.index, batch.reward)
        if memory.due:
            memory.consolidate(lambda batch: Evaluation(batch.reward, {"q": batch.obs}))
    for name, tensor in sorted(memory.state_dict().items()):
        seen.update(f"{name} {tensor.dtype}".encode() + tensor.numpy().tobytes())
    print(kind, seen.hexdigest())
"""


def lives(dtype: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, dtype], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_memories_live_the_same_lives_when_the_default_dtype_is_float64() -> None:
    wanted = lives("float32")
    assert len(wanted) == 7
    assert lives("float64") == wanted
