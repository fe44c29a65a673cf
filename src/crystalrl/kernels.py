"""Numba twins of the hot loops on CPU. Import it through `load()`: numba is optional and costs a second to load.

Each function here has a torch reference that a test compares it with on the same random numbers:
`fill_uniform` ↔ random.element_bits + to_unit; `descend`, `raise_sums`, `build_sums` ↔ draw.WeightTree.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64."""

BELOW_ONE = 1 - 2.0**-53
"""x · BELOW_ONE < x for every normal float64 x > 0: keeps a rounded remainder inside its node."""


@cache
def load() -> ModuleType | None:
    """The compiled kernels, or None where numba is missing or switched off (CRYSTALRL_NUMBA=0)."""
    if os.environ.get("CRYSTALRL_NUMBA", "1") == "0":
        return None
    try:
        import numba
    except ImportError:
        return None
    return _compile(numba)


def _compile(numba: Any) -> ModuleType:
    jit = numba.njit(cache=True, nogil=True, error_model="numpy")
    module = ModuleType("crystalrl.compiled")
    golden, mix_1, mix_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)
    s30, s27, s31, s11, one = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)

    @jit
    def _mix(x: Any) -> Any:
        x = (x ^ (x >> s30)) * mix_1
        x = (x ^ (x >> s27)) * mix_2
        return x ^ (x >> s31)

    @jit
    def fill_uniform(key: Any, tick: Any, out: Any) -> None:
        """key uint64[L], tick uint64 → out float64[L, B] in [0, 1)."""
        for lane in range(out.shape[0]):
            state = _mix(key[lane] + (tick + one) * golden)
            for b in range(out.shape[1]):
                state = state + golden
                out[lane, b] = np.float64(_mix(state) >> s11) * 2.0**-53

    @jit
    def descend(
        weight: Any, label: Any, sums: Any, shape: Any, uniform: Any, stratum: Any, slot: Any, share: Any
    ) -> None:
        """Draw one slot per uniform. weight f32[L, N], label u8[L, N], sums f64[L, S, M]; results [L, B]."""
        fan, levels = shape[0], shape[1]
        for lane in range(uniform.shape[0]):
            for b in range(uniform.shape[1]):
                s = stratum[lane, b]
                total = sums[lane, s, shape[2 + levels - 1]]
                inside = total
                rest = uniform[lane, b] * total
                node = 0
                for level in range(levels - 2, -1, -1):
                    rest = min(rest, inside * BELOW_ONE)
                    base = shape[2 + level] + node * fan
                    before, chosen = 0.0, 0
                    for j in range(fan):
                        inside = sums[lane, s, base + j]
                        if rest < before + inside:
                            chosen = j
                            break
                        before += inside
                    rest -= before
                    node = node * fan + chosen
                rest = min(rest, inside * BELOW_ONE)
                base = node * fan
                before, chosen = 0.0, 0
                for j in range(fan):
                    if label[lane, base + j] == s:
                        before += np.float64(weight[lane, base + j])
                        if rest < before:
                            chosen = j
                            break
                slot[lane, b] = base + chosen
                share[lane, b] = np.float64(weight[lane, base + chosen]) / total

    @jit
    def _refresh(weight: Any, label: Any, sums: Any, shape: Any, lane: int, s: int, slot: int) -> None:
        fan, levels = shape[0], shape[1]
        node = slot // fan
        total = 0.0
        for j in range(node * fan, node * fan + fan):
            if label[lane, j] == s:
                total += np.float64(weight[lane, j])
        sums[lane, s, shape[2] + node] = total
        for level in range(1, levels):
            node = node // fan
            base = shape[2 + level - 1] + node * fan
            total = 0.0
            for j in range(base, base + fan):
                total += sums[lane, s, j]
            sums[lane, s, shape[2 + level] + node] = total

    @jit
    def _set_leaf(weight: Any, label: Any, sums: Any, shape: Any, lane: int, slot: int, value: float, new: int) -> None:
        old = label[lane, slot]
        weight[lane, slot] = value
        label[lane, slot] = new
        if old != new and old < sums.shape[1]:
            _refresh(weight, label, sums, shape, lane, old, slot)
        if new < sums.shape[1]:
            _refresh(weight, label, sums, shape, lane, new, slot)

    @jit
    def raise_one(weight: Any, label: Any, sums: Any, shape: Any, slot: int, value: float, new: int) -> None:
        """Set weight and label of one slot of the only lane and recompute the sums above."""
        _set_leaf(weight, label, sums, shape, 0, slot, value, new)

    @jit
    def raise_sums(weight: Any, label: Any, sums: Any, shape: Any, slot: Any, value: Any, new_label: Any) -> None:
        """Set weight and label of slots [L, B] in order (a negative slot is skipped) and recompute the sums above."""
        for lane in range(slot.shape[0]):
            for b in range(slot.shape[1]):
                if slot[lane, b] >= 0:
                    _set_leaf(weight, label, sums, shape, lane, slot[lane, b], value[lane, b], new_label[lane, b])

    @jit
    def build_sums(weight: Any, label: Any, sums: Any, shape: Any) -> None:
        """Recompute every sum from the leaves."""
        fan, levels = shape[0], shape[1]
        sums[:] = 0.0
        for lane in range(weight.shape[0]):
            for i in range(weight.shape[1]):
                s = label[lane, i]
                if s < sums.shape[1]:
                    sums[lane, s, shape[2] + i // fan] += np.float64(weight[lane, i])
            for s in range(sums.shape[1]):
                for level in range(1, levels):
                    first, above = shape[2 + level - 1], shape[2 + level]
                    for j in range(above - first):
                        sums[lane, s, above + j // fan] += sums[lane, s, first + j]

    module.__dict__.update(
        fill_uniform=fill_uniform, descend=descend, raise_sums=raise_sums, raise_one=raise_one, build_sums=build_sums
    )
    return module
