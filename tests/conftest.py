"""What every test shares: reproducible Hypothesis runs, and the two ways to compute on CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import HealthCheck, settings

from crystalrl import kernels, plain

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("fixed")


@contextmanager
def numba_off() -> Iterator[None]:
    """Memories and trees built inside use the NumPy fallback, as where numba is missing.

    CRYSTALRL_NUMBA=0 does the same for a whole process; here the compiled kernels must survive for the next test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "load", lambda: plain)
        yield


@pytest.fixture(params=["numba", "fallback"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test that names it runs twice: with the compiled kernels and without."""
    if request.param == "numba":
        pytest.importorskip("numba")
        yield "numba"
    else:
        with numba_off():
            yield "fallback"


@pytest.fixture(autouse=True)
def ordinary_floats() -> Iterator[None]:
    """A study on CPU takes denormal numbers as zero, for the whole process; the next test wants them back."""
    yield
    torch.set_flush_denormal(False)
