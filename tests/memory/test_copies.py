"""A pickled or copied memory goes on like the original, and apart from it."""

from __future__ import annotations

import multiprocessing
import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import (
    CrystalMemory,
    CrystalParams,
    Evaluation,
    PrioritizedMemory,
    ReservoirMemory,
    Transition,
    UniformMemory,
)


def filled(memory: Any, steps: int = 40) -> Any:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        obs, next_obs = rng.normal(size=(2, 3)).astype(np.float32)
        memory.add(Transition(obs, int(rng.integers(4)), float(rng.normal()), next_obs, False))
    return memory


@pytest.mark.parametrize("way", [deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))], ids=["copy", "pickle"])
@pytest.mark.parametrize("kind", [UniformMemory, PrioritizedMemory, ReservoirMemory, CrystalMemory])
def test_a_copy_draws_what_the_original_would_and_shares_nothing(kind: Any, way: Any) -> None:
    crystal = (
        {"params": CrystalParams.anchored(kappa={"q": 0.5}), "anchor": {"q": (4,)}} if kind is CrystalMemory else {}
    )
    memory = filled(kind(64, obs=(3,), action=4, n_step=2, seed=5, **crystal))
    memory.consolidate(lambda batch: Evaluation(batch.reward, {"q": batch.reward[:, None].expand(-1, 4)}))
    copy, before = way(memory), memory.state_dict()
    filled(copy).sample(16)
    assert all(torch.equal(before[name], tensor) for name, tensor in memory.state_dict().items())
    again = way(memory)
    filled(memory), filled(again)
    for _ in range(5):
        ours, theirs = memory.sample(16), again.sample(16)
        assert torch.equal(ours.index, theirs.index)
        assert torch.equal(ours.weight, theirs.weight)
        memory.update(ours, ours.reward)
        again.update(theirs, theirs.reward)
    again.check()


def drawn(memory: Any, answers: Any) -> None:
    answers.put(memory.sample(16).index.tolist())


@pytest.mark.parametrize("kind", [UniformMemory, CrystalMemory])
def test_a_memory_can_be_given_to_a_spawned_process(kind: Any) -> None:
    memory, context = filled(kind(64, obs=(3,), action=4, seed=5)), multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=drawn, args=(memory, answers))
    process.start()
    there = answers.get(timeout=60)
    process.join()
    assert there == memory.sample(16).index.tolist()
