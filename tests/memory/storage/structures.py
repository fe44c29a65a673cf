"""Structures of every kind for Hypothesis: shapes, dtypes, parts of an observation, actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from crystalrl.memory.storage.spec import FLOATS, INTEGERS, StorageSpec

DTYPES = FLOATS + INTEGERS


shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)


names = st.text("abcxyz._", min_size=1, max_size=4)


parts = st.dictionaries(names, st.tuples(shapes, st.sampled_from(DTYPES)), min_size=1, max_size=5)


actions = st.one_of(st.integers(1, 9), shapes)


def spec_of(
    kinds: dict[str, Any], action: Any, action_dtype: torch.dtype, context: bool, **options: Any
) -> StorageSpec:
    obs, dtypes = ({name: kind[k] for name, kind in kinds.items()} for k in (0, 1))
    return StorageSpec(
        7, obs=obs, obs_dtype=dtypes, action=action, action_dtype=action_dtype, context=context, **options
    )


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    kind = np.dtype(str(dtype).removeprefix("torch."))
    if kind.kind == "f":
        return rng.normal(size=shape).astype(kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
