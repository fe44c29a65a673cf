"""Access to the loops that work on CPU, `crystalrl.backends.numba_tree` (numba) or `crystalrl.backends.numpy_tree` (NumPy), to the kernels for
CUDA, `crystalrl.backends.triton_kernels` (Triton), and what they share.

numba and Triton are optional and cost a second to load, so they are loaded when the first memory is built.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64."""
MASK = (1 << 64) - 1

FAN = 16
"""Children of a node in the trees of draw weights on CPU."""
UNLABELLED = 255
"""Label of a slot that belongs to no stratum."""

BELOW_ONE = 1 - 2.0**-53
"""x · BELOW_ONE < x for every normal float64 x > 0: keeps a rounded remainder inside its node."""


def mix_int(x: int) -> int:
    """The SplitMix64 output function of one unsigned Python integer."""
    x &= MASK
    x = ((x ^ (x >> 30)) * MIX_1) & MASK
    x = ((x ^ (x >> 27)) * MIX_2) & MASK
    return x ^ (x >> 31)


def signed(value: int) -> int:
    """The int64 with the bits of an unsigned 64-bit integer."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


@cache
def load() -> ModuleType:
    """The compiled loops, or the plain ones where numba is missing or switched off (CRYSTALRL_NUMBA=0)."""
    from crystalrl.backends import numpy_tree as plain

    if os.environ.get("CRYSTALRL_NUMBA", "1") == "0":
        return plain
    try:
        from crystalrl.backends import numba_tree as compiled
    except ImportError:
        return plain
    return compiled


def of(device: torch.device) -> ModuleType | None:
    """The loops for tensors of a device; None stands for torch's own operations."""
    return load() if device.type == "cpu" and fused_for(device) is None else None


def fused_for(device: torch.device) -> ModuleType | None:
    """Triton's kernels for tensors of a device; None where there are none, or none wanted (CRYSTALRL_TRITON=0).

    CRYSTALRL_TRITON=cpu, with TRITON_INTERPRET=1, is for tests: memories on CPU then compute as on CUDA.
    """
    wanted = os.environ.get("CRYSTALRL_TRITON", "1")
    return _triton(device) if wanted != "0" and device.type == ("cpu" if wanted == "cpu" else "cuda") else None


@cache
def _triton(device: torch.device) -> ModuleType | None:
    try:
        from crystalrl.backends import triton_kernels as fused
    except ImportError:
        return None
    try:
        fused.probe(device)
    except Exception as error:
        warnings.warn(f"Triton does not work on {device}, so draws take longer there: {error}", stacklevel=2)
        return None
    return fused


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`torch.zeros`; on CPU in NumPy's memory, which asks the system for large pages: scattered reads miss less."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, str(dtype).removeprefix("torch."))).zero_()


def compiled_for(device: torch.device) -> ModuleType | None:
    """The compiled loops, where there are any: some have no plain twin, because in NumPy they would gain nothing."""
    loops = of(device)
    return loops if loops is not None and hasattr(loops, "jit") else None


def pairs_for(device: torch.device) -> ModuleType | None:
    """The kernels over all pairs of experiences, `fused.pairs` or `compiled_pairs`; None: torch's own operations."""
    fused = fused_for(device)
    if fused is not None:
        pairs: ModuleType = fused.pairs
        return pairs
    if compiled_for(device) is None:
        return None
    from crystalrl.backends import numba_pairs as compiled_pairs

    return compiled_pairs
