"""The compiled loops over sum trees do what plain Python does."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from crystalrl.backends import numba_tree as loops
from crystalrl.backends.numpy_tree import ARITY
from crystalrl.backends.protocols import Weighting
from tests.backends.loops import arrays_of, rule_of

SHAPES = [(1, 1), (2, 3)]
SLOTS = 700  # three levels


def members(tree: Any, lane: int, stratum: int) -> list[float]:
    """The weight of each slot as its stratum sees it: 0 for the slots of others."""
    weight, label = tree[0][lane].tolist(), tree[1][lane].tolist()
    return [w if not label or label[slot] == stratum else 0.0 for slot, w in enumerate(weight)]


def summed(values: list[float]) -> list[float]:
    """The sums of families, each from its first child to its last."""
    out = []
    for first in range(0, len(values), ARITY):
        total = 0.0
        for value in values[first : first + ARITY]:
            total += value
        out.append(total)
    return out


def assert_sums_are_those_of_a_plain_loop(tree: Any) -> None:
    sums, offsets = tree[2], [*tree[4].tolist(), tree[2].shape[2]]
    for lane, stratum in np.ndindex(sums.shape[:2]):
        below = members(tree, lane, stratum)
        for begin, end in pairwise(offsets):
            wanted = summed(below)
            below = sums[lane, stratum, begin:end].tolist()
            assert below == wanted + [0.0] * (len(below) - len(wanted))


@pytest.mark.parametrize(("lanes", "strata"), SHAPES)
@pytest.mark.parametrize("size", [1, 5, 200])
def test_changed_weights_change_every_sum_above_them(lanes: int, strata: int, size: int) -> None:
    tree, rng = arrays_of("numba", 0, lanes, SLOTS, strata), np.random.default_rng(1)
    slot = rng.integers(-1, SLOTS, (lanes, size))
    value, label = rng.random((lanes, size)).astype(np.float32), rng.integers(0, strata, (lanes, size), dtype=np.uint8)
    wanted = tree[0].copy()
    for lane, b in np.ndindex(slot.shape):
        if slot[lane, b] >= 0:
            wanted[lane, slot[lane, b]] = value[lane, b]
    loops.update_sums(tree, slot, value, label)
    assert np.array_equal(tree[0], wanted)
    assert_sums_are_those_of_a_plain_loop(tree)


@pytest.mark.parametrize(("lanes", "strata"), SHAPES)
def test_rebuilt_sums_are_those_of_a_plain_loop(lanes: int, strata: int) -> None:
    tree = arrays_of("numba", 3, lanes, SLOTS, strata)
    tree[2][:] = -1.0
    loops.build_sums(tree)
    assert_sums_are_those_of_a_plain_loop(tree)


@pytest.mark.parametrize(("lanes", "strata"), SHAPES)
def test_a_draw_is_the_slot_whose_interval_holds_the_uniform(lanes: int, strata: int) -> None:
    tree, rng = arrays_of("numba", 4, lanes, SLOTS, strata), np.random.default_rng(5)
    uniform, stratum = rng.random((lanes, 300)), rng.integers(0, strata, (lanes, 300), dtype=np.uint8)
    slot, share = np.empty((lanes, 300), np.int64), np.empty((lanes, 300))
    loops.descend(tree, uniform, stratum, slot, share)
    for lane, b in np.ndindex(slot.shape):
        weight = members(tree, lane, stratum[lane, b])
        running = np.cumsum(weight)
        assert slot[lane, b] == np.searchsorted(running, uniform[lane, b] * running[-1], side="right")
        assert share[lane, b] == pytest.approx(weight[slot[lane, b]] / running[-1], rel=1e-12)


@pytest.mark.parametrize(("lanes", "strata"), SHAPES)
def test_errors_become_weights_except_in_slots_rewritten_since_they_were_drawn(lanes: int, strata: int) -> None:
    tree, rng = arrays_of("numba", 6, lanes, SLOTS, strata), np.random.default_rng(7)
    c, error, weighting, epsilon, exponent, highest = rule = rule_of(8, lanes, SLOTS, strata)
    slot = np.stack([rng.permutation(SLOTS)[:40] for _ in range(lanes)])
    magnitude = (3 * rng.random((lanes, 40))).astype(np.float32)
    lane = np.arange(lanes)[:, None]
    ticket = tree[3][lane, slot]
    tree[3][lane, slot[:, :10]] += 1  # rewritten since they were drawn
    weight, top = tree[0].copy(), highest.copy()
    for k in range(lanes):
        for b in range(10, 40):
            i = slot[k, b]
            value = np.float32((float(magnitude[k, b]) + epsilon) ** exponent[k, 0])
            top[k] = max(top[k], value)
            label = int(tree[1][k, i]) if strata > 1 else 0
            how = weighting[label] if label < strata else Weighting.BASE
            if strata > 1:
                state = c[k, i]
                value = {Weighting.BASE: value, Weighting.BASE_ROOT_C: value * np.sqrt(state), Weighting.C: state}[how]
                value = max(value, np.float32(epsilon))
            weight[k, i] = value
    loops.learn(tree, rule, slot, ticket, magnitude)
    np.testing.assert_allclose(tree[0], weight, rtol=1e-6)
    np.testing.assert_allclose(highest, top, rtol=1e-6)
    if strata > 1:
        wanted = np.zeros_like(error)
        wanted[lane, slot[:, 10:]] = magnitude[:, 10:]
        assert np.array_equal(error, wanted)
    assert_sums_are_those_of_a_plain_loop(tree)
