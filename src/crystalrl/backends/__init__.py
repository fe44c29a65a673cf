"""Implementations of the hot operations: one `Backend` per device, chosen by `backend_for`.

CPU uses numba (compiled loops) or NumPy, CUDA uses Triton or torch. torch works everywhere and is the readable
reference; tests run every backend on CPU, Triton in its interpreter. numba and Triton are optional and take a second to
load, so they are loaded when the first memory is built.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import torch
from numpy.typing import NDArray

from crystalrl.backends import numpy_frames, numpy_writes
from crystalrl.backends.cpu_writes import CpuEntry, CpuWrites
from crystalrl.backends.protocols import Entry, Pairs, TreeKind, Writes

__all__ = ["Backend", "backend_for"]

VARIABLE = "CRYSTALRL_BACKEND"
"""Environment variable: auto, or the name of a backend, which is then used for every device that it works on."""


_ENTRY = partial(CpuEntry, numpy_writes)


@dataclass(frozen=True)
class Backend:
    """Operations on tensors of one device. None: torch's own operations are used."""

    name: str
    tree: TreeKind
    writes: Writes
    streams: ModuleType | None = None
    """Module with `fill_uniform` and `fill_integers` for NumPy arrays."""
    pairs: Pairs | None = None
    graph: ModuleType | None = None
    """Loops over neighbour lists: `numba_graph`."""
    products: ModuleType | None = None
    """Loops over products of states: `numba_products`."""
    similar: ModuleType | None = None
    """Loops over lists of similar experiences: `numba_similar`."""
    adam: Callable[..., None] | None = None
    """`triton_adam.step`."""
    entry: Callable[..., Entry] = _ENTRY
    """Makes a ledger's `Entry`, on the host: `CpuEntry` with this backend's loops."""
    store: Callable[..., None] = numpy_writes.store_rows
    """`Writes.store_rows` of NumPy arrays."""
    finite: Callable[[NDArray[Any]], bool] = numpy_writes.finite
    """Whether all of an array [L, E, K] is finite."""
    frames: ModuleType = numpy_frames
    """Codes of frames, on NumPy arrays: `numpy_frames` or `numba_frames`."""

    @property
    def on_host(self) -> bool:
        """Whether it works on NumPy views, on CPU: then values can be read without synchronisation."""
        return self.streams is not None


def backend_for(device: torch.device) -> Backend:
    """The backend for tensors of a device; the environment variable CRYSTALRL_BACKEND can select one."""
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted != "auto" and wanted not in _BUILD:
        raise ValueError(f"{VARIABLE}: wanted auto or one of {', '.join(_BUILD)}, got {wanted!r}")
    return _chosen(wanted, device)


def recording(device: torch.device) -> bool:
    """Whether a CUDA graph is being recorded: then nothing may depend on values that are on the GPU."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@cache
def _chosen(wanted: str, device: torch.device) -> Backend:
    possible = {"cpu": ["numba", "numpy", "torch"], "cuda": ["triton", "torch"]}.get(device.type, ["torch"])
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1":
        possible.append("triton")
    if wanted in possible:
        return _built(wanted, device)
    for name in possible:
        try:
            return _built(name, device)
        except ImportError:
            continue
        except Exception as error:
            warnings.warn(f"{name} does not work on {device}, so draws take longer there: {error}", stacklevel=3)
    raise AssertionError("torch is always possible")


def _built(name: str, device: torch.device) -> Backend:
    backend = _BUILD[name]()
    if name == "triton":
        from crystalrl.backends import triton_writes

        triton_writes.probe(device)
    return backend


def _numpy() -> Backend:
    from crystalrl.backends import numpy_tree

    return _on_host("numpy", numpy_tree, numpy_writes)


def _numba() -> Backend:
    from crystalrl.backends import (
        numba_frames,
        numba_graph,
        numba_pairs,
        numba_products,
        numba_similar,
        numba_tree,
        numba_writes,
    )

    pairs = Pairs(numba_pairs.nearest, numba_pairs.tally, numba_pairs.votes)
    host = _on_host("numba", numba_tree, numba_writes)
    host = replace(host, store=numba_writes.store_rows, finite=numba_writes.finite, frames=numba_frames)
    return replace(host, pairs=pairs, graph=numba_graph, products=numba_products, similar=numba_similar)


def _on_host(name: str, loops: ModuleType, writes: ModuleType) -> Backend:
    from crystalrl.backends.cpu_tree import CpuTree
    from crystalrl.backends.numpy_tree import ARITY

    tree = TreeKind(partial(CpuTree, loops, writes), ARITY, loops.TOP, ordered=True)
    return Backend(name, tree, CpuWrites(writes), loops, entry=partial(CpuEntry, writes))


def _torch() -> Backend:
    from crystalrl.backends import torch_tree, torch_writes

    tree = TreeKind(torch_tree.TorchTree, torch_tree.ARITY, torch_tree.TOP, ordered=False)
    return Backend("torch", tree, torch_writes)


def _triton() -> Backend:
    from crystalrl.backends import triton_adam, triton_pairs, triton_writes
    from crystalrl.backends.triton_operations import TritonTree
    from crystalrl.backends.triton_tree import ARITY, TOP

    pairs = Pairs(triton_pairs.nearest, triton_pairs.tally, None)
    tree = TreeKind(TritonTree, ARITY, TOP, ordered=False)
    return Backend("triton", tree, triton_writes, pairs=pairs, adam=triton_adam.step)


_BUILD: dict[str, Callable[[], Backend]] = {"numba": _numba, "numpy": _numpy, "torch": _torch, "triton": _triton}
