"""Sum trees: every backend draws, weighs and learns as torch's operations, the reference, do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl.backends.protocols import Weighting
from crystalrl.backends.torch_tree import bump
from crystalrl.memory.sampling.priority import LossGate, PriorityRule
from crystalrl.random import Streams
from tests.conftest import computing_with
from tests.memory.sampling.trees import WAYS, draw, edges, filled_every_way, labels_of

TABLES = [
    (Weighting.BASE,),
    (Weighting.BASE, Weighting.BASE_ROOT_C, Weighting.C),
    (Weighting.C, Weighting.BASE, Weighting.BASE_ROOT_C, Weighting.BASE),
]


@pytest.mark.parametrize(("slots", "strata"), [(10, 1), (10, 3), (1_000, 3), (100_003, 1), (100_003, 3)])
def test_all_ways_draw_the_same_slots_from_the_same_uniforms(slots: int, strata: int) -> None:
    rng = np.random.default_rng(slots * strata)
    weight, label = rng.gamma(0.5, size=(3, slots)).astype(np.float32), labels_of(rng, 3, slots, strata)
    uniform, stratum = edges(rng, 3, 20_000), rng.integers(0, strata, (3, 20_000))
    first, *others = [draw(tree, uniform, stratum) for tree in filled_every_way(weight, label, strata)]
    for slot, share in others:
        assert np.array_equal(slot, first[0])
        np.testing.assert_allclose(share, first[1], rtol=1e-12)


@pytest.mark.parametrize("weighting", TABLES)
def test_all_ways_weigh_a_draw_and_learn_from_it_alike(weighting: tuple[Weighting, ...]) -> None:
    rng = np.random.default_rng(8)
    slots, strata, by_c = 700, len(weighting), len(weighting) > 1
    weight, label = rng.random((2, slots)).astype(np.float32), labels_of(rng, 2, slots, strata)
    stratum = torch.from_numpy(rng.integers(0, strata, (2, 300)).astype(np.uint8))
    count = torch.tensor([[300.0, 200.0, 100.0, 50.0][:strata]] * 2, dtype=torch.float64)
    exponent = torch.tensor([[0.4], [0.7]], dtype=torch.float64)
    c = torch.from_numpy(rng.random((2, slots if by_c else 0)).astype(np.float32))
    seen = []
    for tree, way in zip(filled_every_way(weight, label, strata), WAYS, strict=True):
        with computing_with(way):
            streams = Streams([3, 4])
        error, top = torch.zeros(2, slots + 1 if by_c else 0), torch.full((2,), 0.5)
        slot, importance, ticket = tree.sample(streams, stratum, count, exponent, LossGate(c, exponent, exponent / 4))
        tree.bump(slot[:, :20])  # what was drawn first is gone
        tree.learn(slot, (slot % 50) / 30.0, PriorityRule(1e-3, exponent, top, weighting, (c, error)), ticket)
        tree.check()
        seen.append([slot, importance, top, error[:, :-1], tree.weight[:, :slots], tree.generation[:, :slots], ticket])
    for other in seen[1:]:
        for wanted, got in zip(seen[0], other, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-6, atol=0)
    stale = torch.isin(seen[0][0][0], seen[0][0][0, :20])
    kept = seen[0][4][0].gather(0, seen[0][0][0])
    assert torch.equal(kept[stale], torch.from_numpy(weight[0])[seen[0][0][0]][stale])
    assert not torch.equal(kept[~stale], torch.from_numpy(weight[0])[seen[0][0][0]][~stale])


def test_every_capacity_up_to_seventy_works_every_way() -> None:
    rng = np.random.default_rng(70)
    for n in range(1, 71):
        weight = rng.random((2, n)).astype(np.float32) * (rng.random((2, n)) < 0.7)
        weight[:, rng.integers(n)] = 1
        exact = np.cumsum(weight.astype(np.float64), -1)
        u = edges(rng, 2, 200)
        wanted = np.stack([np.searchsorted(exact[i], u[i] * exact[i, -1], side="right") for i in range(2)])
        for tree in filled_every_way(weight):
            tree.check()
            np.testing.assert_allclose(tree.total[:, 0].numpy(), exact[:, -1], rtol=1e-14)
            slot, _ = draw(tree, u)
            assert np.array_equal(slot[:, 4:], wanted[:, 4:]), n
            assert (np.take_along_axis(weight, slot, 1) > 0).all(), n


def test_a_generation_rises_by_as_often_as_its_slot_is_named() -> None:
    generation = torch.zeros(2, 6, dtype=torch.int32)
    bump(generation, torch.tensor([[0, 2, 2], [-1, 4, -1]]))
    assert generation[:, :5].tolist() == [[1, 0, 2, 0, 0], [0, 0, 0, 0, 1]]
