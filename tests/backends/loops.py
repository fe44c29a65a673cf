"""Sum trees as the NumPy arrays that the loops on CPU work on."""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.cpu_tree import CpuTree
from crystalrl.backends.protocols import Weighting
from crystalrl.memory.sampling.sum_tree import SumTree
from tests.conftest import computing_with
from tests.memory.sampling.trees import filled, labels_of

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
