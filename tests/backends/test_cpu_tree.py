"""Sum trees on CPU: the loops of numba and NumPy sum in the same order, one slot at a time or many."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl.backends.cpu_tree import CpuTree
from crystalrl.backends.numpy_tree import ARITY
from crystalrl.memory.sampling.sum_tree import SumTree
from tests.conftest import computing_with
from tests.memory.sampling.trees import filled, labels_of


def test_one_slot_at_a_time_is_set_like_many(backend: str) -> None:
    rng = np.random.default_rng(1)
    weight, label = rng.random((1, 300)).astype(np.float32), labels_of(rng, 1, 300, 2)
    many, single = filled(weight, label, 2), SumTree(1, 300, 2)
    assert isinstance(single.operations, CpuTree)
    for slot in rng.permutation(300):
        single.operations.set_one(int(slot), float(weight[0, slot]), int(label[0, slot]))
    assert torch.equal(many.sums, single.sums)
    assert torch.equal(many.weight, single.weight)


@pytest.mark.parametrize(("lanes", "strata"), [(1, 1), (2, 3)])
def test_numba_and_numpy_sum_in_the_same_order(lanes: int, strata: int) -> None:
    rng = np.random.default_rng(5)
    for slots, size in ((16, 1), (40, 2), (300, 7), (5_000, 256), (5_000, 1)):
        weight, label = rng.gamma(0.5, size=(lanes, slots)).astype(np.float32), labels_of(rng, lanes, slots, strata)
        trees = []
        for name in ("numba", "numpy"):
            with computing_with(name):
                trees.append(filled(weight, label, strata))
        slot = torch.from_numpy(rng.integers(0, slots, (lanes, size)))
        new = torch.rand(lanes, size), torch.from_numpy(labels_of(rng, lanes, size, strata, 0.0))
        for tree in trees:
            tree.set(slot, *new)
        shared = -(-slots // ARITY)
        assert torch.equal(trees[0].sums[..., :shared], trees[1].sums[..., :shared])
