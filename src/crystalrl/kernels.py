"""Access to the compiled loops of `crystalrl.compiled`, and the constants they share with their references.

numba is optional and costs a second to load, so it is loaded when the first memory on CPU is built.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType

GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64."""

BELOW_ONE = 1 - 2.0**-53
"""x · BELOW_ONE < x for every normal float64 x > 0: keeps a rounded remainder inside its node."""


@cache
def load() -> ModuleType | None:
    """The compiled loops, or None where numba is missing or switched off (CRYSTALRL_NUMBA=0)."""
    if os.environ.get("CRYSTALRL_NUMBA", "1") == "0":
        return None
    try:
        from crystalrl import compiled
    except ImportError:
        return None
    return compiled
