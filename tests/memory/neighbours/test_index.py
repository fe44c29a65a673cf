"""The index over all distances finds the nearest."""

from __future__ import annotations

import pytest
import torch

from crystalrl.memory.neighbours.index import Brute


@pytest.mark.parametrize("slots", [500, 20_000])
def test_the_index_over_all_distances_finds_the_nearest(slots: int) -> None:
    """The same code as on CUDA, where groups of slots are compared before their members."""
    rng = torch.Generator().manual_seed(0)
    states = torch.randn(2, slots, 6, generator=rng)
    occupied = torch.rand(2, slots, generator=rng) < 0.7
    index = Brute(2, slots, 6, torch.device("cpu"))
    index.build(
        occupied, torch.ones(2, dtype=torch.bool), lambda slots: states.gather(1, slots[..., None].expand_as(states))
    )
    removed, new = occupied & (torch.rand(2, slots, generator=rng) < 0.1), torch.tensor([[3, 40, 7], [9, 0, 0]])
    real = torch.tensor([[True, True, True], [True, False, False]])
    vectors = torch.randn(2, 3, 6, generator=rng)
    index.replace(removed, new, real, vectors)
    occupied = occupied & ~removed
    for lane, count in ((0, 3), (1, 1)):
        states[lane, new[lane, :count]], occupied[lane, new[lane, :count]] = vectors[lane, :count], True
    queries = torch.randn(2, 50, 6, generator=rng)
    found = index.search(queries, torch.ones(2, 50, dtype=torch.bool), 12)
    apart = torch.cdist(queries.double(), states.double()).masked_fill(~occupied[:, None], torch.inf)
    assert torch.equal(found, apart.topk(12, largest=False).indices)
