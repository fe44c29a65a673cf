"""Spaces become shapes and dtypes, and what they cannot store is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl.memory import ReplayMemory
from tests.experience import MEMORIES

NAN, INF = float("nan"), float("inf")

SMALL: dict[str, Any] = {"obs": (2,), "action": 4}


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no capacity": ({"capacity": 0}, "^capacity: wanted a whole number ≥ 1, got 0"),
    "negative capacity": ({"capacity": -5}, "^capacity: .*got -5"),
    "half a slot": ({"capacity": 2.5}, "^capacity: .*got 2.5"),
    "capacity True": ({"capacity": True}, "^capacity: .*got True"),
    "no environments": ({"envs": 0}, "^envs: wanted a whole number ≥ 1, got 0"),
    "no lanes": ({"lanes": 0}, "^lanes: wanted a whole number ≥ 1, got 0"),
    "no steps": ({"n_step": 0}, "^n_step: wanted a whole number ≥ 1, got 0"),
    "gamma above one": ({"gamma": 1.1}, r"^gamma: wanted a number in \[0, 1\], got 1.1"),
    "gamma NaN": ({"gamma": NAN}, "^gamma: .*got nan"),
    "too many windows": (
        {"capacity": 5, "envs": 2, "n_step": 3},
        "^capacity: wanted at least envs × n_step = 6 slots, got 5",
    ),
    "shape as a number": ({"obs": 3}, r"^obs: wanted a shape such as \(17,\), got 3"),
    "shape as a list": ({"obs": [3]}, r"^obs: wanted a shape .*got \[3\]"),
    "an axis of zero": ({"obs": (3, 0)}, r"^obs: wanted a shape .*got \(3, 0\)"),
    "part of zero": ({"obs": {"a": (0,)}}, r"^obs a: wanted a shape"),
    "no actions": ({"action": 0}, "^action: wanted a whole number ≥ 1, got 0"),
    "action axis of zero": ({"action": (0,)}, r"^action: wanted a shape .*got \(0,\)"),
    "complex observations": ({"obs_dtype": torch.complex64}, "^obs_dtype: wanted one of float16.*got torch.complex64"),
    "NumPy dtype": ({"obs_dtype": np.float32}, "^obs_dtype: wanted one of"),
    "dtypes of other parts": (
        {"obs": {"a": (2,)}, "obs_dtype": {"b": torch.float32}},
        r"^obs_dtype: wanted the keys of obs \['a'\], got \['b'\]",
    ),
    "too few seeds": ({"lanes": 3, "seed": [1, 2]}, "^seed: wanted one integer, or 3 integers .*got 2"),
    "negative seed": ({"seed": -1}, "^seed: wanted integers ≥ 0"),
    "seed beyond 63 bits": ({"seed": 2**63}, "^seed: wanted integers"),
}


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_memory_that_makes_no_sense_is_not_built(kind: type[ReplayMemory], name: str) -> None:
    options, message = OPTIONS[name]
    with pytest.raises(ValueError, match=message):
        kind(**{"capacity": 10, **SMALL, **options})
