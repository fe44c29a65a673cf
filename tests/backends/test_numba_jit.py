"""Loops compile also where numba finds no place for its cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("numba")

import numba

from crystalrl.backends.numba_jit import prefetch

PROGRAM = """
import warnings
from crystalrl.backends.numba_jit import fast, jit
scope = {}
exec(compile("def double(x): return 2 * x", "/proc/nowhere/code.py", "exec"), scope)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert jit(scope["double"])(21) == fast(scope["double"])(21) == 42
assert all("NUMBA_CACHE_DIR" in str(each.message) for each in seen) and len(seen) == 2, seen
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nobody can write")
def test_functions_compile_without_a_place_for_the_cache_and_say_so() -> None:
    """A container with a read-only package and home."""
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **nowhere}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_folder_of_the_cache_is_where_numba_is_told_to_write(tmp_path: Path) -> None:
    code = "from crystalrl.backends.numba_jit import cache_folder; print(cache_folder())"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parent == tmp_path


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]  # without a cache, which would hide the code
def _total(values: NDArray[np.float64], ahead: int) -> float:
    total = 0.0
    for i in range(len(values)):
        prefetch(values, i + ahead)
        total += values[i]
    return total


@pytest.mark.parametrize("ahead", [1, 1 << 40, -(1 << 40)])
def test_a_prefetch_is_compiled_and_harmless_outside_the_array(ahead: int) -> None:
    values = np.arange(100.0)
    assert _total(values, ahead) == values.sum()
    assert all("prefetch" in code for code in _total.inspect_asm().values())
