"""Sum trees as the NumPy arrays that the loops on CPU work on."""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.cpu_tree import CpuTree
from crystalrl.backends.protocols import ColumnArrays, Weighting
from crystalrl.memory.sampling.sum_tree import SumTree
from tests.conftest import computing_with
from tests.memory.sampling.trees import filled, labels_of

COLUMNS = 3
"""Float columns of a ledger."""
WEIGHTING = (Weighting.BASE, Weighting.BASE_ROOT_C, Weighting.C)


def arrays_of(name: str, seed: int, lanes: int, slots: int, strata: int) -> Any:
    """The arrays of a tree with random weights and labels, for the loops of the backend `name`."""
    rng = np.random.default_rng(seed)
    weight, label = rng.gamma(0.5, size=(lanes, slots)).astype(np.float32), labels_of(rng, lanes, slots, strata)
    with computing_with(name):
        tree: SumTree = filled(weight, label, strata)
    assert isinstance(tree.operations, CpuTree)
    return tree.operations._tree


def rule_of(seed: int, lanes: int, slots: int, strata: int) -> tuple[Any, ...]:
    """c, error, weighting, ε, exponent and largest priority, as `learn` takes them; without c for one stratum."""
    rng, width = np.random.default_rng(seed), slots if strata > 1 else 0
    c, error = rng.random((lanes, width)).astype(np.float32), np.zeros((lanes, width + (width > 0)), np.float32)
    exponent, highest = np.full((lanes, 1), 0.6), np.full(lanes, 0.5, np.float32)
    return c, error, WEIGHTING[:strata], 1e-3, exponent, highest


def columns_of(rng: np.random.Generator, tree: Any, lanes: int, slots: int, envs: bool) -> ColumnArrays:
    """Columns of a ledger that hold arbitrary values, and the numbers of labels in the tree."""
    wide = (lanes, slots + 1)
    filled = np.stack([(tree[1] == s).sum(1) for s in range(3)], 1).astype(np.float64)
    return ColumnArrays(
        floats=rng.random((COLUMNS, *wide)).astype(np.float32),
        bytes=rng.integers(0, 9, (2, *wide)).astype(np.uint8),
        birth=rng.integers(0, 99, wide),
        updated=rng.integers(0, 99, wide).astype(np.int32),
        env=rng.integers(0, 99, wide).astype(np.uint8) if envs else np.empty((0, 0), np.int32),
        clock=np.array([2**40 + 7, 5, 6])[:lanes],
        number=np.array([40, 50, 60])[:lanes],
        filled=filled,
        enter=np.array([0.3, 0.7], np.float32)[:, None, None].repeat(lanes, 1),
    )


def new_slots(rng: np.random.Generator, lanes: int, slots: int, count: int) -> Any:
    """Different slots int64[L, M]; some are −1."""
    chosen = np.stack([rng.permutation(slots)[:count] for _ in range(lanes)])
    return np.where(rng.random(chosen.shape) < 0.2, -1, chosen)
