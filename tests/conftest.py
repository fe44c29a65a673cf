"""What every test shares: reproducible Hypothesis runs, and the two ways to compute on CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings

from crystalrl import kernels

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("fixed")


@contextmanager
def numba_off() -> Iterator[None]:
    """Memories and trees built inside use the NumPy fallback, as where numba is missing."""
    before = os.environ.get("CRYSTALRL_NUMBA")
    os.environ["CRYSTALRL_NUMBA"] = "0"
    kernels.load.cache_clear()
    try:
        yield
    finally:
        if before is None:
            del os.environ["CRYSTALRL_NUMBA"]
        else:
            os.environ["CRYSTALRL_NUMBA"] = before
        kernels.load.cache_clear()


@pytest.fixture(scope="module", params=["numba", "fallback"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test that names it runs twice: with the compiled kernels and without."""
    if request.param == "numba":
        pytest.importorskip("numba")
        yield "numba"
    else:
        with numba_off():
            yield "fallback"
