"""The loops in NumPy do what the compiled ones do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from crystalrl.backends import numba_tree, numpy_tree
from crystalrl.backends.numpy_tree import ARITY
from tests.backends.loops import arrays_of, rule_of
from tests.conftest import computing_with
from tests.memory.sampling.trees import filled, labels_of

BOTH: dict[str, Any] = {"numba": numba_tree, "numpy": numpy_tree}
SHAPES = [(1, 1), (2, 3)]
SLOTS = 700


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


@pytest.mark.parametrize(("lanes", "strata"), SHAPES)
@pytest.mark.parametrize("gated", [True, False])
def test_a_sample_has_the_same_slots_and_weights(lanes: int, strata: int, gated: bool) -> None:
    rng, found = np.random.default_rng(0), []
    stratum, count = rng.integers(0, strata, (lanes, 200), dtype=np.uint8), rng.uniform(50, 99, (lanes, strata))
    c = rng.random((lanes, SLOTS if gated else 0)).astype(np.float32)
    gate, beta = (c, np.full((lanes, 1), 2.0), np.full((lanes, 1), 0.1)), rng.random((lanes, 1))
    random = np.arange(lanes, dtype=np.uint64) + np.uint64(11), np.uint64(3)
    for name, loops in BOTH.items():
        tree = arrays_of(name, 1, lanes, SLOTS, strata)
        tree[3][:] = np.arange(tree[3].shape[1]) % 97
        slot, weight = np.empty(stratum.shape, np.int64), np.empty(stratum.shape, np.float32)
        ticket = np.empty(stratum.shape, np.int32)
        loops.sample(tree, random, stratum, count, beta, gate, (slot, weight, ticket))
        assert np.array_equal(ticket, slot % 97)
        found.append((slot, weight))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)


@pytest.mark.parametrize(("lanes", "strata"), SHAPES)
def test_errors_are_learned_alike(lanes: int, strata: int) -> None:
    rng, found = np.random.default_rng(2), []
    slot = np.stack([rng.permutation(SLOTS)[:50] for _ in range(lanes)])
    magnitude, lane = (3 * rng.random((lanes, 50))).astype(np.float32), np.arange(lanes)[:, None]
    for name, loops in BOTH.items():
        tree, rule = arrays_of(name, 3, lanes, SLOTS, strata), rule_of(4, lanes, SLOTS, strata)
        ticket = tree[3][lane, slot]
        tree[3][lane, slot[:, :10]] += 1  # rewritten since they were drawn
        loops.learn(tree, rule, slot, ticket, magnitude)
        found.append((tree[0], tree[1], tree[3], tree[2][..., : SLOTS // ARITY], rule[1][:, :-1], rule[5]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)


def test_random_integers_are_the_same() -> None:
    key, count, found = np.array([5, 2**63 + 9], np.uint64), np.array([7, 10**12]), []
    for loops in BOTH.values():
        out = np.empty((2, 500), np.int64)
        loops.fill_integers(key, np.uint64(8), count, out)
        found.append(out)
    assert np.array_equal(*found)
    assert set(found[0][0]) == set(range(7))
