"""Sum trees for tests: filled with given weights, drawn from with given uniforms."""

from __future__ import annotations

import numpy as np
import torch

from crystalrl.backends.protocols import UNLABELLED
from crystalrl.memory.sampling.sum_tree import SumTree
from tests.conftest import INTERPRETED, computing_with

WAYS = ("numba", "numpy", "torch", *(["triton"] if INTERPRETED else []))


def labels_of(rng: np.random.Generator, lanes: int, slots: int, strata: int, spare: float = 0.1) -> np.ndarray:
    """Random strata; some slots belong to none, unless there is only one."""
    label = rng.integers(0, strata, (lanes, slots)).astype(np.uint8)
    if strata > 1:
        label[rng.random((lanes, slots)) < spare] = UNLABELLED
    label[:, :strata] = np.arange(strata)[: min(slots, strata)]
    return label


def filled(weight: np.ndarray, label: np.ndarray | None = None, strata: int = 1) -> SumTree:
    """A tree with the given weights [L, N]."""
    tree = SumTree(*weight.shape, strata)
    label = np.zeros(weight.shape, np.uint8) if label is None else label
    slots = torch.arange(weight.shape[1]).expand(weight.shape).contiguous()
    tree.set(slots, torch.from_numpy(weight.astype(np.float32)), torch.from_numpy(label))
    return tree


def draw(tree: SumTree, uniform: np.ndarray, stratum: int | np.ndarray = 0) -> tuple[np.ndarray, np.ndarray]:
    wanted = np.broadcast_to(np.asarray(stratum, np.uint8), uniform.shape).copy()
    slot, share = tree.draw(torch.from_numpy(uniform), torch.from_numpy(wanted))
    return slot.numpy(), share.numpy()


def edges(rng: np.random.Generator, lanes: int, size: int) -> np.ndarray:
    """Uniforms, both ends of [0, 1) among them."""
    u = rng.random((lanes, size))
    u[:, :4] = [0.0, 1 - 2.0**-53, 2.0**-53, 0.5]
    return u


def filled_every_way(weight: np.ndarray, label: np.ndarray | None = None, strata: int = 1) -> list[SumTree]:
    trees = []
    for way in WAYS:
        with computing_with(way):
            trees.append(filled(weight, label, strata))
    return trees
