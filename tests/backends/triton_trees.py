"""Two equal sum trees: one of torch's operations on CPU, one of Triton's kernels, on CUDA or interpreted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl.memory.sampling.sum_tree import SumTree
from tests.backends.lives import CUDA
from tests.memory.sampling.trees import labels_of

DEVICE = "cuda" if CUDA else "cpu"


def pair_of_trees(seed: int, slots: int, strata: int, lanes: int = 2) -> tuple[SumTree, SumTree]:
    rng = np.random.default_rng(seed)
    weight, label = rng.gamma(0.5, size=(lanes, slots)).astype(np.float32), labels_of(rng, lanes, slots, strata, 0.0)
    trees = []
    for name, device in (("torch", "cpu"), ("triton", DEVICE)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CRYSTALRL_BACKEND", name)
            tree = SumTree(lanes, slots, strata, device)
        tree.weight[:, :slots] = torch.from_numpy(weight).to(device)
        if strata > 1:
            tree.label[:, :slots] = torch.from_numpy(label).to(device)
        tree.rebuild()
        trees.append(tree)
    return trees[0], trees[1]


def tensors_of(tree: SumTree) -> dict[str, torch.Tensor]:
    """The state of the slots that exist, on CPU."""
    return {name: tensor.cpu() for name, tensor in tree.tensors().items()}
