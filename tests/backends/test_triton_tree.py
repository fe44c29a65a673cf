"""The kernels that write sum trees, compiled for CUDA or interpreted, write what torch's operations do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl.backends.protocols import Weighting
from crystalrl.memory.sampling.priority import PriorityRule
from crystalrl.memory.sampling.sum_tree import SumTree
from tests.backends.lives import NEEDS_TRITON
from tests.backends.triton_trees import DEVICE, pair_of_trees, tensors_of
from tests.memory.sampling.trees import labels_of

pytestmark = NEEDS_TRITON
SHAPES = [(40, 1), (700, 3), (5_000, 3)]


def assert_same_tree(one: SumTree, other: SumTree) -> None:
    for name, wanted in tensors_of(one).items():
        torch.testing.assert_close(tensors_of(other)[name], wanted, rtol=1e-5, atol=0, msg=name)
    torch.testing.assert_close(other.total.cpu(), one.total, rtol=1e-5, atol=0)
    other.check()


@pytest.mark.parametrize(("slots", "strata"), SHAPES)
def test_weights_that_are_set_are_summed_and_negative_slots_skipped(slots: int, strata: int) -> None:
    trees, rng = pair_of_trees(0, slots, strata), np.random.default_rng(1)
    slot = np.stack([rng.permutation(slots)[:30] for _ in range(2)])
    slot[:, ::5] = -1
    weight, label = rng.random((2, 30)).astype(np.float32), labels_of(rng, 2, 30, strata)
    for tree in trees:
        tree.set(*(torch.from_numpy(x).to(tree.device) for x in (slot, weight, label)))
    assert_same_tree(*trees)


@pytest.mark.parametrize(("slots", "strata"), SHAPES)
def test_sums_are_rebuilt_from_the_weights(slots: int, strata: int) -> None:
    one, other = pair_of_trees(2, slots, strata)
    other.sums.mul_(3)
    other.rebuild()
    torch.testing.assert_close(other.total.cpu(), one.total, rtol=1e-12, atol=0)


@pytest.mark.parametrize("slots", [40, 5_000])
def test_errors_become_weights_except_in_slots_rewritten_since_they_were_drawn(slots: int) -> None:
    weighting = (Weighting.BASE, Weighting.BASE_ROOT_C, Weighting.C)
    trees, rng, kept = pair_of_trees(3, slots, 3), np.random.default_rng(4), []
    slot = torch.from_numpy(np.stack([rng.permutation(slots)[:24] for _ in range(2)]))
    magnitude = torch.from_numpy((3 * rng.random((2, 24))).astype(np.float32))
    state = torch.from_numpy(rng.random((2, slots)).astype(np.float32))
    for tree in trees:
        at = slot.to(tree.device)
        ticket = tree.generation.gather(1, at)
        tree.bump(at[:, :8])
        c, error, top = (x.to(tree.device) for x in (state, torch.zeros(2, slots + 1), torch.full((2,), 0.5)))
        exponent = torch.tensor([[0.4], [0.7]], dtype=torch.float64, device=tree.device)
        tree.learn(at, magnitude.to(tree.device), PriorityRule(1e-3, exponent, top, weighting, (c, error)), ticket)
        kept.append((error[:, :-1].cpu(), top.cpu()))
    assert_same_tree(*trees)
    for wanted, got in zip(*kept, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=0)


def test_the_tensors_are_on_the_device_that_is_tested() -> None:
    _, other = pair_of_trees(5, 40, 1)
    assert other.sums.device.type == DEVICE
