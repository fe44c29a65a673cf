"""A sum tree of Triton's kernels, compiled for CUDA or interpreted, is one of torch's operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl.memory.sampling.priority import LossGate, PriorityRule
from crystalrl.random import Streams
from tests.backends.lives import NEEDS_TRITON
from tests.backends.triton_trees import pair_of_trees, tensors_of

pytestmark = NEEDS_TRITON


@pytest.mark.parametrize(("slots", "strata"), [(40, 1), (700, 3)])
def test_draws_and_samples_are_the_same(slots: int, strata: int) -> None:
    rng, found = np.random.default_rng(0), []
    uniform, stratum = rng.random((2, 200)), rng.integers(0, strata, (2, 200)).astype(np.uint8)
    count, state = rng.uniform(50, 99, (2, strata)), rng.random((2, slots)).astype(np.float32)
    for tree in pair_of_trees(1, slots, strata):
        given = (torch.from_numpy(x).to(tree.device) for x in (uniform, stratum, count, state))
        u, s, number, c = given
        power = torch.tensor([[0.4], [2.0]], dtype=torch.float64, device=tree.device)
        drawn, share = tree.draw(u, s)
        tree.bump(drawn[:, :50])
        sampled = tree.sample(Streams([3, 4], device=tree.device), s, number, power, LossGate(c, power, power / 9))
        assert torch.equal(sampled[2], tree.generation.gather(1, sampled[0]))
        found.append([x.cpu() for x in (drawn, share, *sampled)])
    for wanted, got in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=0)


def test_new_experiences_are_committed_the_same_one_at_a_time_or_many() -> None:
    from crystalrl.backends.triton_operations import TritonTree

    found = []
    for tree in (*pair_of_trees(2, 90, 1, lanes=1), pair_of_trees(2, 90, 1, lanes=1)[1]):
        one = torch.ones(1, 1, dtype=torch.float64, device=tree.device)
        rule = PriorityRule(1e-3, one, torch.full((1,), 2.5, device=tree.device))
        slots = torch.tensor([[3, 89, -1, 40]], device=tree.device)
        if len(found) == 2:
            assert isinstance(tree.operations, TritonTree)
            for slot in (3, 89, 40):
                tree.commit(torch.tensor([[slot]], device=tree.device), rule)
        else:
            tree.commit(slots, rule)
        tree.check()
        found.append(tensors_of(tree))
    for other in found[1:]:
        for name, wanted in found[0].items():
            assert torch.equal(other[name], wanted), name
