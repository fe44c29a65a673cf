"""Weighted draws: frequencies, sums that never drift, and slots of weight zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy import stats

from crystalrl.backends.protocols import UNLABELLED
from crystalrl.memory.sampling.priority import PriorityRule
from crystalrl.memory.sampling.sum_tree import SumTree
from tests.conftest import computing_with
from tests.memory.sampling.trees import draw, edges, filled, labels_of

LEAST_P = 1e-3
TINY = 2.0**-149
"""The smallest positive float32, a denormal."""
HUGE = float(np.finfo(np.float32).max)


@pytest.fixture(params=["numba", "numpy", "torch", pytest.param("triton", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test that names it runs every way; torch stands for CUDA without Triton."""
    with computing_with(request.param) as name:
        yield name


@pytest.mark.parametrize("strata", [1, 3])
@pytest.mark.parametrize("slots", [10, 1_000, 100_003])
def test_slots_are_drawn_in_proportion_to_their_weight(backend: str, slots: int, strata: int) -> None:
    rng = np.random.default_rng(slots + strata)
    weight = rng.gamma(0.5, size=(2, slots)).astype(np.float32)
    weight[rng.random(weight.shape) < 0.1] = 0
    label = labels_of(rng, 2, slots, strata)
    tree = filled(weight, label, strata)
    count = 100_000 if backend == "torch" else 400_000  # test_torch_tree: all backends draw the same slots
    for s in range(strata):
        slot, _ = draw(tree, rng.random((2, count)), s)
        for lane in range(2):
            inside = np.where(label[lane] == s, weight[lane].astype(np.float64), 0.0)
            seen = np.bincount(slot[lane], minlength=slots)
            assert not seen[inside == 0].any()
            assert frequencies_fit(seen, inside / inside.sum() * count) > LEAST_P


def frequencies_fit(seen: np.ndarray, wanted: np.ndarray) -> float:
    """p-value of χ², slots joined in order until each cell expects at least ten."""
    cell = (np.cumsum(wanted) / 10).astype(int)
    counts, expected = np.bincount(cell, seen), np.bincount(cell, wanted)
    kept = expected > 0
    return stats.chisquare(counts[kept], expected[kept]).pvalue


def test_share_is_the_part_of_the_stratums_total(backend: str) -> None:
    rng = np.random.default_rng(3)
    weight, label = rng.random((3, 500)).astype(np.float32), labels_of(rng, 3, 500, 3)
    tree = filled(weight, label, 3)
    stratum = rng.integers(0, 3, (3, 64))
    slot, share = draw(tree, rng.random((3, 64)), stratum)
    for lane in range(3):
        for b in range(64):
            total = weight[lane].astype(np.float64)[label[lane] == stratum[lane, b]].sum()
            assert label[lane, slot[lane, b]] == stratum[lane, b]
            assert share[lane, b] == pytest.approx(weight[lane, slot[lane, b]] / total, rel=1e-12)


@pytest.mark.parametrize(("slots", "strata"), [(10, 1), (1_000, 3), (100_003, 3)])
def test_sums_do_not_drift_over_a_hundred_thousand_updates(backend: str, slots: int, strata: int) -> None:
    rng = np.random.default_rng(slots)
    tree = SumTree(2, slots, strata)
    for _ in range(500):
        slot = rng.integers(-1, slots, (2, 100))
        weight = rng.gamma(0.2, size=slot.shape).astype(np.float32) * 10.0 ** rng.integers(-6, 7, slot.shape)
        label = labels_of(rng, 2, 100, strata)
        tree.set(torch.from_numpy(slot), torch.from_numpy(weight.astype(np.float32)), torch.from_numpy(label))
    kept = tree.sums.clone()
    for s in range(strata):
        fresh = (tree.weight.double() * (tree.label == s if strata > 1 else 1)).sum(-1)
        torch.testing.assert_close(tree.total[:, s], fresh, rtol=1e-9, atol=0)
    tree.rebuild()
    assert torch.equal(kept, tree.sums)
    tree.check()


def test_of_a_slot_set_twice_in_one_call_the_last_counts(backend: str) -> None:
    tree = SumTree(1, 40, 2)
    slot = torch.tensor([[3, 7, 3, -1, 3]])
    tree.set(slot, torch.tensor([[9.0, 1.0, 8.0, 5.0, 2.0]]), torch.tensor([[0, 0, 0, 0, 1]], dtype=torch.uint8))
    assert tree.total.tolist() == [[1.0, 2.0]]
    tree.check()


def test_a_slot_that_changes_stratum_leaves_the_old_one(backend: str) -> None:
    tree = filled(np.array([[1.0, 2.0, 4.0]]), np.array([[0, 0, 1]], np.uint8), 2)
    tree.set(torch.tensor([[1, 2]]), torch.tensor([[3.0, 5.0]]), torch.tensor([[1, UNLABELLED]], dtype=torch.uint8))
    assert tree.total.tolist() == [[1.0, 3.0]]
    slot, _ = draw(tree, np.linspace(0, 0.999, 50)[None], 1)
    assert set(slot[0]) == {1}


HARD = {
    "tiny next to huge": [TINY, 0.0, HUGE, 0.0, TINY],
    "huge, nothing, tiny": [HUGE, 0.0, 0.0, TINY],
    "one among zeros": [0.0] * 30 + [1.0] + [0.0] * 30,
    "one at the start": [1.0] + [0.0] * 63,
    "one at the end": [0.0] * 63 + [1.0],
    "denormals only": [0.0, TINY, 0.0, TINY, TINY, 0.0],
    "a single denormal": [0.0] * 100 + [TINY] + [0.0] * 100,
    "thirds": [1 / 3, 0.0] * 40,
    "growing": [0.0 if k % 3 else 2.0 ** min(k - 100, 120) for k in range(200)],
    "falling": [0.0 if k % 3 else 2.0 ** (100 - k) for k in range(200)],
    "huge many": [HUGE, 0.0] * 50,
    "last of a node": [0.0] * 15 + [0.1] + [0.0] * 15 + [0.7] + [0.0] * 16,
}


@pytest.mark.parametrize("name", HARD)
def test_zero_weight_is_never_drawn_whatever_the_rounding(backend: str, name: str) -> None:
    weight = np.array([HARD[name]], np.float32)
    tree = filled(weight)
    total = float(tree.total[0, 0])
    borders = np.cumsum(weight[0].astype(np.float64)) / total
    near = np.concatenate([borders, np.nextafter(borders, 0), np.nextafter(borders, 1), borders * (1 - 2.0**-52)])
    u = np.concatenate([edges(np.random.default_rng(0), 1, 5_000)[0], near])
    u = u[(u >= 0) & (u < 1)]
    slot, share = draw(tree, u[None])
    assert (weight[0, slot[0]] > 0).all()
    assert (share > 0).all()


def test_zero_weight_is_never_drawn_from_random_sparse_trees(backend: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        slots, strata = int(rng.integers(1, 600)), int(rng.integers(1, 4))
        weight = 10.0 ** rng.uniform(-40, 38, (2, slots)) * (rng.random((2, slots)) < rng.choice([0.02, 0.3, 1.0]))
        weight = weight.astype(np.float32)
        label = labels_of(rng, 2, slots, strata)
        tree = filled(weight, label, strata)
        for s in range(strata):
            drawable = (weight > 0) & (label == s)
            if drawable.any(-1).all():
                slot, _ = draw(tree, edges(rng, 2, 64), s)
                assert np.take_along_axis(drawable, slot, 1).all()


def test_a_slot_made_zero_is_not_drawn_again(backend: str) -> None:
    rng = np.random.default_rng(2)
    tree = filled(rng.random((1, 1000)))
    dropped = rng.permutation(1000)[:990]
    zeros = torch.zeros(1, 990)
    tree.set(torch.from_numpy(dropped)[None], zeros, zeros.to(torch.uint8))
    slot, _ = draw(tree, edges(rng, 1, 20_000))
    assert not set(slot[0]) & set(dropped)
    assert len(set(slot[0])) == 10


@pytest.mark.parametrize("slots", [300, 100_003])
def test_one_lane_alone_is_drawn_like_a_lane_among_others(backend: str, slots: int) -> None:
    rng = np.random.default_rng(6)
    weight, label = rng.random((2, slots)).astype(np.float32), labels_of(rng, 2, slots, 3)
    uniform, stratum = rng.random((2, 500)), rng.integers(0, 3, (2, 500))
    together, _ = draw(filled(weight, label, 3), uniform, stratum)
    for lane in range(2):
        alone, _ = draw(filled(weight[[lane]], label[[lane]], 3), uniform[[lane]], stratum[[lane]])
        assert np.array_equal(alone[0], together[lane])


def test_new_experiences_get_the_largest_priority_of_their_lane_and_the_next_generation(backend: str) -> None:
    tree, one = SumTree(2, 100), torch.ones(2, 1, dtype=torch.float64)
    rule = PriorityRule(1e-3, one, torch.tensor([2.0, 5.0]))
    before = tree.generation.clone()
    tree.commit(torch.tensor([[3, -1, 99], [7, 8, -1]]), rule)
    tree.check()
    wanted = torch.zeros(2, 100)
    wanted[0, [3, 99]], wanted[1, [7, 8]] = 2.0, 5.0
    assert torch.equal(tree.weight[:, :100], wanted)
    assert torch.equal((tree.generation - before)[:, :100], (wanted > 0).to(torch.int32))


@pytest.mark.parametrize("strata", [1, 3])
def test_slots_without_weight_and_unknown_slots_cannot_be_drawn(backend: str, strata: int) -> None:
    tree = SumTree(2, 40, strata)
    label = torch.tensor([[0, 2], [1, 1]], dtype=torch.uint8).clamp_max(strata - 1)
    tree.set(torch.tensor([[3, 39], [0, 5]]), torch.full((2, 2), 1e-6), label)
    found = tree.drawable(torch.tensor([[3, 39, 0, -1, 40], [3, 39, 0, -1, 10**9]]))
    assert found.tolist() == [[True, True, False, False, False], [False, False, True, False, False]]


def test_one_new_experience_is_stored_as_many_are(backend: str) -> None:
    rule = PriorityRule(1e-3, torch.ones(1, 1, dtype=torch.float64), torch.tensor([2.5]))
    many, single = SumTree(1, 300), SumTree(1, 300)
    slots = np.random.default_rng(1).permutation(300)[:150]
    many.commit(torch.from_numpy(slots)[None], rule)
    for slot in slots:
        single.commit(torch.tensor([[slot]]), rule)
    for name in ("weight", "sums", "generation"):
        assert torch.equal(getattr(many, name), getattr(single, name)), name


def test_every_slot_of_every_capacity_up_to_seventy_can_be_drawn(backend: str) -> None:
    for n in range(1, 71):
        tree = filled(np.ones((1, n)))
        slot, share = draw(tree, (np.arange(n)[None] + 0.5) / n)
        assert slot[0].tolist() == list(range(n))
        np.testing.assert_allclose(share, 1 / n, rtol=1e-12)


def test_a_tree_of_many_slots_is_built_as_it_is_updated(backend: str) -> None:
    rng = np.random.default_rng(9)
    weight = rng.random((1, 100_003)).astype(np.float32)
    one = filled(weight)
    other = SumTree(1, 100_003)
    other.weight[:, :100_003] = torch.from_numpy(weight)
    other.label[:, :100_003] = 0
    other.rebuild()
    assert torch.equal(one.sums, other.sums)


def test_lanes_of_a_tree_do_not_touch_each_other(backend: str) -> None:
    rng = np.random.default_rng(4)
    weight = rng.random((3, 77)).astype(np.float32)
    together = filled(weight)
    u = rng.random((3, 500))
    slots, _ = draw(together, u)
    for lane in range(3):
        alone, _ = draw(filled(weight[lane : lane + 1]), u[lane : lane + 1])
        assert np.array_equal(slots[lane], alone[0])


@pytest.mark.parametrize("damage", ["sum", "negative", "nan"])
def test_check_names_a_broken_tree(backend: str, damage: str) -> None:
    tree = filled(np.ones((1, 50)))
    tree.check()
    if damage == "sum":
        tree.sums[0, 0, 0] += 0.5
    else:
        tree.weight[0, 3] = -1.0 if damage == "negative" else float("nan")
    with pytest.raises(AssertionError, match="draw"):
        tree.check()


def test_clear_leaves_an_empty_tree(backend: str) -> None:
    tree = filled(np.ones((2, 50)))
    tree.clear()
    assert tree.total.tolist() == [[0.0], [0.0]]
    tree.check()
