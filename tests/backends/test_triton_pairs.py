"""The kernels over all pairs on CUDA, by Triton, agree with torch's operations."""

from __future__ import annotations

import pytest
import torch

from crystalrl.backends import backend_for
from tests.backends.pairs import assert_agree_with_torch, assert_exactly_epsilon_counts, experiences

CUDA = torch.device("cuda")
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]


@pytest.fixture(autouse=True)
def _triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRYSTALRL_BACKEND", "triton")


@pytest.mark.parametrize(("slots", "size"), [(97, 2), (1500, 3), (3001, 12)])
@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("contexts", [True, False])
def test_kernels_agree_with_torch(slots: int, size: int, discrete: bool, contexts: bool) -> None:
    assert_agree_with_torch(backend_for(CUDA).pairs, experiences(slots, size, discrete, contexts, "cuda"))


def test_an_experience_exactly_epsilon_away_is_no_neighbour_for_exists() -> None:
    assert_exactly_epsilon_counts(backend_for(CUDA).pairs, "cuda")
