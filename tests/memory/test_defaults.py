"""Memories do not depend on torch's default dtype and device."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.test_mirrored import PACKAGE

PROGRAM = """
import hashlib, pickle, sys, tempfile
import numpy as np
import torch
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl import Evaluation, Transition, load_memory

torch.set_default_dtype(getattr(torch, sys.argv[1]))
torch.set_default_device(sys.argv[2])


class Lists(CrystalMemory):
    exact_up_to = {"cpu": 16}


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
    "lists": Lists(90, params=anchored, anchor={"q": (2,)}, **shape),
}
for kind, memory in memories.items():
    rng, seen = np.random.default_rng(0), hashlib.sha256()
    for step in range(150):
        obs, after = rng.normal(size=(2, 2)).astype(np.float32)
        memory.add(Transition(obs, int(rng.integers(3)), float(rng.normal()), after, bool(rng.random() < 0.05)))
        if step > 5:
            batch = memory.sample(8)
            for name in ("obs", "reward", "discount", "weight"):
                values = getattr(batch, name)
                assert values.dtype == torch.float32, (kind, name, values.dtype)
                seen.update(values.numpy().tobytes())
            memory.update(batch, batch.reward)
        if memory.due:
            memory.consolidate(lambda batch: Evaluation(batch.reward, {"q": batch.obs}))
    memory.end_episode()
    memory.check()
    with tempfile.NamedTemporaryFile() as file:
        memory.save(file.name)
        memory.load(file.name)
        for copy in (load_memory(file.name), pickle.loads(pickle.dumps(memory))):
            assert torch.equal(copy.sample(4).index, pickle.loads(pickle.dumps(memory)).sample(4).index)
    for name, tensor in sorted(memory.state_dict().items()):
        seen.update(f"{name} {tensor.dtype}".encode() + tensor.numpy().tobytes())
    print(kind, seen.hexdigest())
"""


def lives(dtype: str, device: str, backend: str = "auto") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, dtype, device],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CRYSTALRL_BACKEND": backend},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("backend", ["auto", pytest.param("torch", marks=pytest.mark.slow)])
def test_memories_live_the_same_lives_under_other_defaults(backend: str) -> None:
    wanted = lives("float32", "cpu", backend)
    assert len(wanted) == 8
    assert lives("float64", "meta", backend) == wanted


FACTORIES = (
    "arange", "as_tensor", "asarray", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn",
    "randperm", "scalar_tensor", "tensor", "zeros",
)  # fmt: skip


def test_every_tensor_of_a_memory_is_made_on_a_named_device() -> None:
    unnamed = []
    files = [*(PACKAGE / "memory").rglob("*.py"), *(PACKAGE / "backends").rglob("*.py"), PACKAGE / "random.py"]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            made = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FACTORIES
            if made and ast.unparse(node.func.value) == "torch" and "device" not in [k.arg for k in node.keywords]:
                unnamed.append(f"{path.name}:{node.lineno}")
    assert len(files) > 50
    assert unnamed == []
