"""Impossible draw weights and generations are named."""

from __future__ import annotations

import pytest
import torch

from crystalrl.memory.sampling.checks import OLDEST, tree_problems

OCCUPIED = torch.tensor([[True, True, False]])


def tree(weight: list[float], generation: list[int]) -> dict[str, torch.Tensor]:
    return {"slot.weight": torch.tensor([weight]), "slot.claims": torch.tensor([generation], dtype=torch.int32)}


def test_a_possible_tree_has_no_problems() -> None:
    assert list(tree_problems(tree([1.0, 1e-45, 0.0], [1, 5, 0]), OCCUPIED)) == []


@pytest.mark.parametrize("weight", [-1.0, torch.nan, torch.inf, 0.0])
def test_impossible_weights_are_found(weight: float) -> None:
    found = list(tree_problems(tree([1.0, weight, 0.0], [1, 1, 1]), OCCUPIED))
    assert found
    assert all(problem.startswith("draw weights: wanted") for problem in found)


def test_a_weight_of_an_empty_slot_is_found() -> None:
    assert list(tree_problems(tree([1.0, 1.0, 1.0], [1, 1, 1]), OCCUPIED))
    assert not list(tree_problems(tree([1.0, 1.0, 1.0], [1, 1, 1])))


@pytest.mark.parametrize("generation", [-1, OLDEST + 1])
def test_impossible_generations_are_found(generation: int) -> None:
    found = list(tree_problems(tree([1.0, 1.0, 0.0], [1, generation, 1]), OCCUPIED))
    assert len(found) == 1
    assert found[0].startswith("generations: wanted")
