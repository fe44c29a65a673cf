"""Memories whose slots Triton writes: compiled for CUDA, or interpreted on CPU."""

from __future__ import annotations

import pytest
import torch

from tests.backends.lives import CUDA, KINDS, NEEDS_TRITON, SLOTS, built, compare_lives, life

pytestmark = NEEDS_TRITON


@pytest.mark.parametrize(("kind", "n_step"), [(kind, 1 + (kind == "crystal")) for kind in KINDS])
def test_a_memory_lives_the_same_life_with_triton(kind: str, n_step: int) -> None:
    consolidations = compare_lives(
        *(built(kind, backend, n_step) for backend in ("auto", "triton")), steps=200 if CUDA else 60
    )
    assert (consolidations > 0) == (kind not in ("prioritized", "reservoir"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "slot"])
def test_bad_errors_and_unknown_slots_are_told_at_the_next_check(bad: float | str) -> None:
    memory = built("prioritized", "triton", 1)
    life(memory, 12)
    kept = memory.ledger.tree.weight[1].clone()
    assert not bool(memory.packer.corrupt)
    index = torch.tensor([[0, 1], [2, SLOTS if bad == "slot" else 3]], device=memory.device)
    error = [[1.0, 2.0], [1.0, 4.0 if isinstance(bad, str) else bad]]
    memory.update(index, torch.tensor(error, device=memory.device))
    assert bool(memory.packer.corrupt)
    assert memory.ledger.tree.weight[0, :2].tolist() == pytest.approx([1.0, 2**0.6], rel=1e-5)
    assert float(memory.ledger.tree.weight[1, 2]) == pytest.approx(1.0, rel=1e-5)
    assert torch.equal(memory.ledger.tree.weight[1, 3:], kept[3:])
    memory.ledger.tree.check()
    if CUDA:
        with pytest.raises(ValueError, match="slot"):
            memory.check()
