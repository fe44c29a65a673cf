"""The kernels over all pairs on CPU, by numba, agree with torch's operations."""

from __future__ import annotations

import pytest
import torch

from crystalrl.backends import backend_for
from tests.backends.pairs import assert_agree_with_torch, assert_exactly_epsilon_counts, experiences
from tests.conftest import computing_with


@pytest.mark.parametrize(
    ("slots", "size"), [(97, 2), (1500, 3), (1025, 12)]
)  # tiles of 512 slots: part of one, part of the third, one beyond two
@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("contexts", [True, False])
def test_kernels_agree_with_torch(slots: int, size: int, discrete: bool, contexts: bool) -> None:
    with computing_with("numba"):
        kernels = backend_for(torch.device("cpu")).pairs
    assert_agree_with_torch(kernels, experiences(slots, size, discrete, contexts, "cpu"))


@pytest.mark.parametrize("way", ["numba", "torch"])
def test_an_experience_exactly_epsilon_away_is_no_neighbour_for_exists(way: str) -> None:
    with computing_with(way):
        assert_exactly_epsilon_counts(backend_for(torch.device("cpu")).pairs, "cpu")
