"""What every test shares: reproducible Hypothesis runs, and the ways to compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import torch
from hypothesis import HealthCheck, settings

from crystalrl import backends
from crystalrl.backends import numpy_tree as plain

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("fixed")

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is loaded
INTERPRETED = find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"


@contextmanager
def numba_off() -> Iterator[None]:
    """Memories and trees built inside use the NumPy fallback, as where numba is missing.

    CRYSTALRL_NUMBA=0 does the same for a whole process; here the compiled kernels must survive for the next test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "load", lambda: plain)
        yield


@contextmanager
def torch_only() -> Iterator[None]:
    """Trees and streams built inside use torch alone, as on CUDA."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "of", lambda device: None)
        yield


@contextmanager
def interpreted_triton() -> Iterator[None]:
    """Trees, streams and memories built inside use Triton's kernels, interpreted on CPU."""
    if not INTERPRETED:
        pytest.skip("needs triton, and TRITON_INTERPRET=1 where there is CUDA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRYSTALRL_TRITON", "cpu")
        yield


@contextmanager
def computing_with(name: str) -> Iterator[str]:
    """What is built inside computes with "numba", "numpy", "torch" or "triton"."""
    if name == "numba":
        pytest.importorskip("numba")
        yield name
    elif name == "triton":
        with interpreted_triton():
            yield name
    else:
        with numba_off() if name == "numpy" else torch_only():
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
