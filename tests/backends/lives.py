"""Memories of two lanes that live the same life with different backends."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, ReservoirMemory, Transition
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.crystal.ledger import EVALUATED, PINNED, CrystalLedger
from crystalrl.memory.crystal.write_order import write_order
from tests.conftest import INTERPRETED

CUDA = torch.cuda.is_available()
LANES, ENVS, SLOTS = 2, 2, 90
SPARE = ("ledger.recent", "ledger.reserved")
"""Tensors whose last column is spare."""
NUMBERS = ("c", "utility", "error", "interference", "key", "streak", "flags", "updated", "birth")
"""Columns of a ledger that backends agree on after a consolidation."""

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
    """A memory on CPU, but with the backend "triton" on CUDA if there is CUDA; otherwise Triton is interpreted."""
    device = "cuda" if backend == "triton" and CUDA else "cpu"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRYSTALRL_BACKEND", backend)
        shape = {"lanes": LANES, "envs": ENVS, "n_step": n_step, "seed": 0, "device": device}
        memory: ReplayMemory = KINDS[kind](obs=(2,), action=3, **shape)
    assert (memory.backend.name == "triton") == (backend == "triton")
    return memory


def evaluate(batch: Any) -> Evaluation:
    return Evaluation(batch.reward * batch.obs[..., 0], {"q": batch.obs * batch.reward[..., None]})


class Life:
    """A memory and what happens to it, which depends on the seed only.

    A slot has one TD error per step: which of several counts is undefined on CUDA.
    """

    def __init__(self, memory: ReplayMemory, seed: int = 0) -> None:
        self.memory, self.rng, self.steps = memory, np.random.default_rng(seed), 0
        self.drawn: list[Batch] = []

    def step(self) -> list[torch.Tensor]:
        """Add, draw and update. Slots written and drawn, weights, coefficients of anchors, on CPU."""
        memory, rng, shape = self.memory, self.rng, (LANES, ENVS)
        fields: dict[str, Any] = {
            "obs": rng.normal(size=(*shape, 2)).astype(np.float32),
            "action": rng.integers(0, 3, shape),
            "reward": np.round(rng.normal(size=shape)).astype(np.float32),
            "next_obs": rng.normal(size=(*shape, 2)).astype(np.float32),
            "terminated": rng.random(shape) < 0.05,
        }
        valid, error = rng.random(shape) < 0.9, torch.from_numpy(rng.normal(size=(LANES, SLOTS)))
        given = {"crystallization": rng.random(shape).astype(np.float32)}
        trusted = given if isinstance(memory, CrystalMemory) and self.steps % 7 == 3 else {}
        moved = {name: torch.from_numpy(value).to(memory.device) for name, value in fields.items()}
        seen = [memory.add(Transition(**moved), valid=valid if self.steps % 3 else None, **trusted)]
        self.steps += 1
        if self.steps > 11:
            seen += self._replay(error.to(memory.device))
        return [x.cpu() for x in seen]

    def _replay(self, error: torch.Tensor) -> list[torch.Tensor]:
        batch = self.memory.sample(8)
        self.drawn.append(batch)
        for each in self.drawn[-1:] + self.drawn[-20::7]:  # some are updated late, and again
            self.memory.update(each, error.gather(1, each.index))
        return [batch.index, batch.weight, *(held.coefficient for held in (batch.anchor or {}).values())]


def life(memory: ReplayMemory, steps: int) -> None:
    """A life in which the memory is consolidated when it is due."""
    one = Life(memory)
    for _ in range(steps):
        one.step()
        if memory.due:
            memory.consolidate(evaluate)
    memory.check()


def compare_lives(one: ReplayMemory, other: ReplayMemory, steps: int, seed: int = 0) -> int:
    """Two memories do the same at each step, and hold the same at the end. Returns the number of consolidations.

    Backends round differently, and at a tie the last bit decides what is evicted or overwritten first: after a
    consolidation of the same state, both numbers and decisions are compared, and the other goes on from the one's
    state. So all that follows must be the same whatever the rounding was.
    """
    lives, consolidations = (Life(one, seed), Life(other, seed)), 0
    for _ in range(steps):
        for wanted, got in zip(*(each.step() for each in lives), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)
        assert one.due == other.due
        if one.due:
            one.consolidate(evaluate)
            other.consolidate(evaluate)
            compare_consolidated(one, other)
            state = one.state_dict()
            for memory in (one, other):  # both, so that both forget the same draws
                memory.load_state_dict(state)
            consolidations += 1
    one.check()
    other.check()
    compare_states(one, other)
    return consolidations


def compare_states(one: ReplayMemory, other: ReplayMemory) -> None:
    """What spare columns hold is undefined."""
    wanted, got = one.state_dict(), other.state_dict()
    assert set(got) == set(wanted)
    for name in wanted:
        end = -1 if name in SPARE else None
        torch.testing.assert_close(
            got[name][:, :end] if end else got[name],
            wanted[name][:, :end] if end else wanted[name],
            rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}",
        )  # fmt: skip


def compare_consolidated(one: ReplayMemory, other: ReplayMemory) -> None:
    """The same numbers, also of evicted experiences; other phases only where rounding decides; the order of writing
    that follows from the memory's own numbers."""
    assert isinstance(one, CrystalMemory)
    assert isinstance(other, CrystalMemory)
    for name in NUMBERS:
        got, wanted = (getattr(memory.ledger, name).cpu() for memory in (other, one))
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    differ = other.ledger.phase.cpu() != one.ledger.phase.cpu()
    assert not bool((differ & ~decided_by_rounding(one.ledger, differ)).any()), differ.nonzero().tolist()
    for name, anchor in one.anchors.items():
        torch.testing.assert_close(
            other.anchors[name].cpu()[~differ], anchor.cpu()[~differ], rtol=1e-4, atol=1e-5, msg=f"anchor {name}"
        )
    for ledger in (one.ledger, other.ledger):
        columns = [x.cpu() for x in (ledger.phase, ledger.flags, ledger.utility, ledger.birth)]
        phase, flags, utility, birth = columns
        order, count = write_order(phase, (flags & PINNED) > 0, (flags & EVALUATED) == 0, utility, birth)
        assert torch.equal(ledger.queue.cpu().to(torch.int64), order)
        assert torch.equal(ledger.tail.cpu(), count)


def decided_by_rounding(ledger: CrystalLedger, differ: torch.Tensor) -> torch.Tensor:
    """bool[L, N]: c is at a threshold, or the utility is that of another experience whose phase differs."""
    limits = torch.stack([*ledger.enter, *ledger.leave]).cpu()
    at_threshold = ((ledger.c.cpu() - limits).abs() <= 1e-6).any(0)
    utility = ledger.utility.cpu()
    tied = (utility[:, :, None] - utility[:, None, :]).abs() <= 1e-6
    tied &= differ[:, None, :] & ~torch.eye(ledger.slots, dtype=torch.bool)
    return at_threshold | tied.any(-1)
