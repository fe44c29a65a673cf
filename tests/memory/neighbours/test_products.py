"""Searches by products of rounded vectors find exactly what a comparison of all distances finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from crystalrl.backends import numba_products
from crystalrl.memory.neighbours.products import Products, fastest


@pytest.fixture(params=[torch.bfloat16, torch.float32], ids=str)
def searched(request: pytest.FixtureRequest) -> Products:
    """Whatever this processor is fast at."""
    return Products(numba_products, request.param)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize("size", [3, 39])
def test_the_nearest_are_found_in_every_unit_and_over_several_tiles(
    searched: Products, size: int, scale: float
) -> None:
    rng = torch.Generator().manual_seed(size)
    states = scale * torch.randn(3000, size, generator=rng)
    slots = torch.randperm(5000, generator=rng)[:3000]
    queries = torch.cat([states[:200] + scale, scale * torch.randn(200, size, generator=rng)])
    own = slots[:400].contiguous()
    apart = torch.cdist(queries.double(), states.double()).masked_fill(own[:, None] == slots, torch.inf)
    least = apart.topk(12, largest=False).values
    place = torch.full((5000,), -1).scatter(0, slots, torch.arange(3000))
    for first in (torch.full((400,), torch.inf), least[:, 9].float()):
        points, stored = searched.vectors(queries, own), searched.vectors(states, slots)
        found = searched.nearest(points, stored, 10, 12, 0.0, first.numpy())
        there = place[torch.from_numpy(found[:, :10]).long()]
        assert len(there.unique(dim=1)[0]) == 10
        torch.testing.assert_close(apart.gather(1, there), least[:, :10], rtol=1e-5, atol=1e-6 * scale)


def test_the_distances_of_rounded_vectors_are_known(searched: Products) -> None:
    exact = torch.randn(5000, 9, generator=torch.Generator().manual_seed(0))
    known = searched.vectors(exact, torch.arange(5000))
    back = known.rounded.float()
    np.testing.assert_allclose(known.norm, back.square().sum(-1).numpy(), rtol=1e-5)
    np.testing.assert_allclose(known.error, (back - exact).norm(dim=-1).numpy(), atol=1e-7)
    assert known.rounded.dtype == torch.float32 or known.error.max() > 0


def test_factors_are_of_a_type_that_torch_multiplies() -> None:
    assert fastest() in (torch.bfloat16, torch.float32)
