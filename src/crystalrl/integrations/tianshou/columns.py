"""The stored columns of an experience; the parts of a dict observation are columns called obs.name."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.data import Batch as Samples

STORED = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next")


def rows_of(batch: Any, count: int) -> dict[str, NDArray[Any]]:
    """The columns of one step of `count` environments; for a single one the axis of environments may be missing."""
    rows: dict[str, NDArray[Any]] = {}
    single = count == 1 and np.ndim(batch.rew) == 0
    for name in STORED:
        value = np.logical_or(batch.terminated, batch.truncated) if name == "done" else batch[name]
        parts = {f"{name}.{part}": row for part, row in value.items()} if isinstance(value, Samples) else {name: value}
        rows |= {part: _row(part, _with_axis(row) if single else row, count) for part, row in parts.items()}
    return rows


def _with_axis(value: Any) -> Any:
    return value if isinstance(value, Samples) else np.asarray(value)[None]


def _row(name: str, value: Any, count: int) -> NDArray[Any]:
    row = np.asarray(value)
    if isinstance(value, Samples) or row.dtype == object:
        raise TypeError(f"{name}: wanted an array of numbers, got {type(value).__name__}: nested dicts are refused")
    if row.shape[:1] != (count,):
        raise ValueError(f"{name}: wanted one row for each of {count} environments, got {row.shape}")
    if row.dtype.kind == "f" and not np.isfinite(row).all():
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity")
    return row.astype(np.float32) if row.dtype == np.float64 and name != "rew" else row


def nested(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns with the parts of a dict observation in a dict of their own, as Tianshou has them."""
    found: dict[str, Any] = {}
    for name, column in columns.items():
        outer, _, inner = name.partition(".")
        if inner:
            found.setdefault(outer, {})[inner] = column
        else:
            found[outer] = column
    return found


def fields_of(rows: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Stored columns as the fields that `ExternalArena` fetches."""
    names = {"obs": "obs", "act": "action", "rew": "reward", "obs_next": "next_obs"}
    given = nested({name: torch.from_numpy(np.ascontiguousarray(row)) for name, row in rows.items()})
    fields = {new: given[old] for old, new in names.items()}
    fields["reward"] = fields["reward"].float()
    return fields | {name: given[name] for name in ("terminated", "truncated")}
