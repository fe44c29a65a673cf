"""Memories do not depend on torch's default dtype and device."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.test_mirrored import PACKAGE

PROGRAM = """
import hashlib, json, pickle, sys, tempfile
import numpy as np
import torch
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl import Evaluation, Transition, load_memory

class Lists(CrystalMemory):
    exact_up_to = {"cpu": 16}


def built():
    shape = {"obs": (2,), "action": 3, "n_step": 2, "seed": 0}
    anchored = CrystalParams.anchored(time_unit=40, alpha=0.5)
    knn = CrystalParams.repaired(time_unit=40, every=40, novelty="knn")
    return {
        "uniform": UniformMemory(90, **shape),
        "prioritized": PrioritizedMemory(90, **shape),
        "reservoir": ReservoirMemory(90, **shape),
        "default": CrystalMemory(90, params=CrystalParams.repaired(time_unit=40, every=40), **shape),
        "paper": CrystalMemory(90, params=CrystalParams.paper(every=40), **shape),
        "anchored": CrystalMemory(90, params=anchored, anchor={"q": (2,)}, **shape),
        "knn": CrystalMemory(90, params=knn, **shape),
        "lists": Lists(90, params=anchored, anchor={"q": (2,)}, **shape),
    }


def life(kind, memory):
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
    return seen.hexdigest()


lives = []
for dtype, device in (("float32", "cpu"), ("float64", "meta")):
    torch.set_default_dtype(getattr(torch, dtype))
    torch.set_default_device(device)
    lives.append({kind: life(kind, memory) for kind, memory in built().items()})
print(json.dumps(lives))
"""


def lives(backend: str) -> list[dict[str, str]]:
    """What memories of every kind hold and draw, under torch's own defaults and under others."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CRYSTALRL_BACKEND": backend},
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("backend", ["auto", pytest.param("torch", marks=pytest.mark.slow)])
def test_memories_live_the_same_lives_under_other_defaults(backend: str) -> None:
    wanted, others = lives(backend)
    assert len(wanted) == 8
    assert others == wanted


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
