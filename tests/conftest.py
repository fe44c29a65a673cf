"""What every test shares: reproducible Hypothesis runs, and the ways to compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("fixed")

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is loaded
INTERPRETED = find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"


@contextmanager
def computing_with(name: str) -> Iterator[str]:
    """Memories, trees and streams built inside compute with the backend "numba", "numpy", "torch" or "triton"."""
    if name == "numba":
        pytest.importorskip("numba")
    if name == "triton" and not INTERPRETED:
        pytest.skip("needs triton, and TRITON_INTERPRET=1 where there is CUDA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRYSTALRL_BACKEND", name)
        yield name


@pytest.fixture(params=["numba", "numpy"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test that names it runs twice: with the compiled kernels and without."""
    with computing_with(request.param) as name:
        yield name


@pytest.fixture(autouse=True)
def ordinary_floats() -> Iterator[None]:
    """A study on CPU takes denormal numbers as zero, for the whole process; the next test wants them back."""
    yield
    torch.set_flush_denormal(False)
