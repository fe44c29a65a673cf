"""Numba's compiler as the loops use it: cached on disk where there is a place for the cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def jit(function: Callable[..., Any], fastmath: bool = False) -> Any:
    """Compile a function when it is first called; without a writable place for the cache, again in each process."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        warnings.warn(_NOTE, stacklevel=2)
        return numba.njit(function, **options)


def bound(function: Any, *examples: Any) -> Callable[..., Any]:
    """A compiled function for arguments of the types of the examples only. It does not check types when it is called,
    which would take longer than the call itself."""
    code: Callable[..., Any] = function.compile(tuple(map(numba.typeof, examples)))
    return code


def fast(function: Callable[..., Any]) -> Any:
    """`jit` that may reorder float operations."""
    return jit(function, fastmath=True)


def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of element `index` of a contiguous array, counted over all axes. Changes nothing, so that
    the misses of many random reads overlap; an index outside the array is harmless."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, given[0]).data
        address = builder.bitcast(builder.gep(data, [given[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        to_read, keep, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
        insert: Any = cgutils.get_or_insert_function
        call = insert(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(call, [address, to_read, keep, of_data])
        return context.get_dummy_value()

    return types.void(array, index), code


prefetch: Any = intrinsic(_prefetch)


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
