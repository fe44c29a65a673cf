"""Distances and neighbours from all pairs."""

from __future__ import annotations

import torch

from crystalrl.memory.neighbours.exact import distances, moments, total


def test_equal_states_are_at_distance_zero_however_many_there_are() -> None:
    vectors = torch.randn(1, 40, 5, generator=torch.Generator().manual_seed(0)) * 3 + 100
    assert bool((distances(vectors, vectors).diagonal(dim1=1, dim2=2) == 0).all())


def test_padding_with_zeros_does_not_change_the_last_bit_of_a_sum() -> None:
    values = torch.rand(2, 256, 3, generator=torch.Generator().manual_seed(0))
    wide = torch.nn.functional.pad(values, (0, 0, 0, 700))
    assert torch.equal(total(values, block=128), total(wide, block=128))
    mask = torch.ones(2, 256, dtype=torch.bool)
    padded = torch.nn.functional.pad(mask, (0, 700))
    for one, other in zip(moments(values, mask, block=128), moments(wide, padded, block=128), strict=True):
        assert torch.equal(one, other)
