"""Memories of two lanes that live the same life with different backends."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, ReservoirMemory, Transition
from crystalrl.memory.base import ReplayMemory
from tests.conftest import INTERPRETED

CUDA = torch.cuda.is_available()
LANES, ENVS, SLOTS = 2, 2, 90
SPARE = ("ledger.recent", "ledger.reserved")
"""Tensors whose last column is spare."""

NEEDS_TRITON = [
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
    pytest.mark.skipif(not CUDA and not INTERPRETED, reason="needs CUDA, or TRITON_INTERPRET=1"),
]

KINDS: dict[str, Any] = {
    "prioritized": lambda **shape: PrioritizedMemory(SLOTS, beta=(0.4, 1.0), **shape),
    "reservoir": lambda **shape: ReservoirMemory(SLOTS, **shape),
    "crystal": lambda **shape: CrystalMemory(SLOTS, params=CrystalParams.repaired(time_unit=20, every=30), **shape),
    "anchored": lambda **shape: CrystalMemory(
        SLOTS, params=CrystalParams.anchored(time_unit=30, epsilon=0.8), anchor={"q": (2,)}, **shape
    ),
    "no phases": lambda **shape: CrystalMemory(SLOTS, params=CrystalParams.repaired(every=30, phases=False), **shape),
}


def built(kind: str, backend: str, n_step: int) -> ReplayMemory:
    """A memory with the backend "auto", on CPU, or "triton": on CUDA if there is CUDA, otherwise interpreted."""
    device = "cuda" if backend == "triton" and CUDA else "cpu"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRYSTALRL_BACKEND", backend)
        shape = {"lanes": LANES, "envs": ENVS, "n_step": n_step, "seed": 0, "device": device}
        memory: ReplayMemory = KINDS[kind](obs=(2,), action=3, **shape)
    assert (memory.backend.name == "triton") == (backend == "triton")
    return memory


def evaluate(batch: Any) -> Evaluation:
    return Evaluation(batch.reward * batch.obs[..., 0], {"q": batch.obs * batch.reward[..., None]})


def life(memory: ReplayMemory, steps: int) -> list[torch.Tensor]:
    """Slots written and drawn, weights, coefficients of anchors and, at the end, the whole state.

    A slot has one TD error per step: which of several counts is undefined on CUDA, as is what spare columns hold.
    """
    rng, seen, drawn = np.random.default_rng(0), [], []
    for step in range(steps):
        fields: dict[str, Any] = {
            "obs": rng.normal(size=(LANES, ENVS, 2)).astype(np.float32),
            "action": rng.integers(0, 3, (LANES, ENVS)),
            "reward": np.round(rng.normal(size=(LANES, ENVS))).astype(np.float32),
            "next_obs": rng.normal(size=(LANES, ENVS, 2)).astype(np.float32),
            "terminated": rng.random((LANES, ENVS)) < 0.05,
        }
        valid, error = rng.random((LANES, ENVS)) < 0.9, torch.from_numpy(rng.normal(size=(LANES, SLOTS)))
        given = {"crystallization": rng.random((LANES, ENVS)).astype(np.float32)}
        trusted = given if isinstance(memory, CrystalMemory) and step % 7 == 3 else {}
        moved = {name: torch.from_numpy(value).to(memory.device) for name, value in fields.items()}
        seen.append(memory.add(Transition(**moved), valid=valid if step % 3 else None, **trusted))
        if step > 10:
            batch = memory.sample(8)
            drawn.append(batch)
            for each in drawn[-1:] + drawn[-20::7]:  # some are updated late, and again
                memory.update(each, error.to(memory.device).gather(1, each.index))
            seen += [batch.index, batch.weight, *(held.coefficient for held in (batch.anchor or {}).values())]
        if memory.due:
            memory.consolidate(evaluate)
    memory.check()
    state = {name: x[:, :-1] if name in SPARE else x for name, x in memory.state_dict().items()}
    return [x.cpu() for x in (*seen, *state.values())]
