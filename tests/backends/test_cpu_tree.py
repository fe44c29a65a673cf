"""Sum trees on CPU: setting slots one at a time gives the same as setting many at once."""

from __future__ import annotations

import numpy as np
import torch

from crystalrl.backends.cpu_tree import CpuTree
from crystalrl.memory.sampling.sum_tree import SumTree
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
