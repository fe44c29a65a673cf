"""Numba's compiler as the loops use it: cached on disk where there is a place for the cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any], fastmath: bool = False) -> Any:
    """Compile a function when it is first called. Without a writable place for the cache, in each process again."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        warnings.warn(_NOTE, stacklevel=2)
        return numba.njit(function, **options)


def fast(function: Callable[..., Any]) -> Any:
    """`jit` that may reorder float operations."""
    return jit(function, fastmath=True)


def cache_folder() -> str | None:
    """Where compiled code of this package is kept for the next process; None: nowhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path: str | None = jit(_empty)._cache.cache_path
    return path


def _empty() -> None:
    """Never called."""


_NOTE = (
    "numba finds no writable folder for compiled code, so it compiles again in every process (seconds); "
    "set NUMBA_CACHE_DIR to a writable folder to avoid this"
)
