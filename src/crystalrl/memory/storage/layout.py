"""The layout of a row: a transition as a run of 8-byte words that holds every field.

One gather fetches a whole batch, and one copy moves it to the GPU. Fields are views of the gathered rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.memory.storage.spec import FLOATS, Shape, StorageSpec

TERMINATED, TRUNCATED = 1, 2
WORD = 8


@dataclass(frozen=True)
class Field:
    """One column of the row: its position and type."""

    name: str
    shape: Shape
    dtype: torch.dtype
    begin: int
    """First element, counted in this dtype."""

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @cached_property
    def stop(self) -> int:
        """First byte after the field."""
        return (self.begin + self.size) * self.dtype.itemsize

    @cached_property
    def cut(self) -> tuple[Any, ...]:
        """Its elements in the last axis of a row, whose other axes stay."""
        return (..., slice(self.begin, self.begin + self.size) if self.shape else self.begin)

    @cached_property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(str(self.dtype).removeprefix("torch."))


class Layout:
    """The fields of a row. Widest dtype first, so that every field is aligned.

    Parts of a dict observation are sorted by name, so a file does not depend on the order the user gave.
    """

    def __init__(self, spec: StorageSpec) -> None:
        wanted: list[tuple[str, Shape, torch.dtype]] = []
        for role in ("obs", "next_obs"):
            wanted += [
                (column_name(role, name), shape, spec.obs_dtypes[name])
                for name, shape in sorted(spec.obs_shapes.items())
            ]
        discrete = isinstance(spec.action, int)
        wanted.append(("action", (), torch.int64) if discrete else ("action", spec.action, spec.action_dtype))  # type: ignore[arg-type]
        wanted += [("reward", (), torch.float32), ("discount", (), torch.float32)]
        if spec.context:
            wanted.append(("context", (), torch.int32))
        wanted.append(("ending", (), torch.uint8))
        wanted.sort(key=lambda field: -field[2].itemsize)
        self.fields: dict[str, Field] = {}
        at = 0
        for name, shape, dtype in wanted:
            self.fields[name] = Field(name, shape, dtype, at // dtype.itemsize)
            at = self.fields[name].stop
        self.words = -(-at // WORD)
        self._cuts = [(f.name, f.numpy_dtype, f.cut, f.shape) for f in self.fields.values()]
        self._runs = [self._run(dtype, list(g)) for dtype, g in groupby(self.fields.values(), key=lambda f: f.dtype)]

    def _run(self, dtype: torch.dtype, run: list[Field]) -> tuple[torch.dtype, list[int], list[Field]]:
        """How to split a row into all fields of one dtype at once: the dtype, the sizes of the pieces, the fields."""
        last = run[-1].stop // dtype.itemsize
        return dtype, [run[0].begin, *(f.size for f in run), self.words * WORD // dtype.itemsize - last], run

    def numpy_views(self, rows: NDArray[np.int64], without: str = "") -> dict[str, NDArray[Any]]:
        """Columns [..., *shape] of rows int64[..., W], as writable views, except for the field `without`."""
        views, typed, last = {}, rows, rows.dtype
        for name, dtype, cut, shape in self._cuts:
            if name == without:
                continue
            if dtype is not last:  # fields of one dtype are adjacent
                typed, last = rows.view(dtype), dtype
            part = typed[cut]
            views[name] = part if len(shape) < 2 else part.reshape(*typed.shape[:-1], *shape)
        return views

    def float_spans(self, rows: NDArray[np.int64]) -> list[NDArray[Any]]:
        """Views of everything in the rows that must be finite, adjacent fields of one dtype together."""
        runs = ((dtype, list(run)) for dtype, run in groupby(self.fields.values(), key=lambda f: f.dtype))
        spans = [run for dtype, run in runs if dtype in FLOATS]
        return [rows.view(g[0].numpy_dtype)[..., g[0].begin : g[-1].begin + g[-1].size] for g in spans]

    def float_parts(self, rows: Tensor) -> list[Tensor]:
        """`float_spans` of a tensor."""
        spans = [run for run in self._runs if run[0] in FLOATS]
        return [rows.view(dtype)[..., sizes[0] : sizes[0] + sum(sizes[1:-1])] for dtype, sizes, _ in spans]

    def torch_views(self, rows: Tensor) -> dict[str, Tensor]:
        """Columns [..., *shape] of rows int64[..., W], as views."""
        views: dict[str, Tensor] = {}
        for dtype, sizes, run in self._runs:
            pieces = rows.view(dtype).split_with_sizes(sizes, -1)
            for field, piece in zip(run, pieces[1:-1], strict=True):
                views[field.name] = _shaped(piece, field.shape)
        return views


def stored_layout(spec: StorageSpec) -> Layout:
    """The layout of the rows that a memory keeps: with `stack`, observations are int32 numbers of frames."""
    if spec.stack is None:
        return Layout(spec)
    return Layout(replace(spec, obs=(spec.stack,), obs_dtype=torch.int32, stack=None))


def _shaped(part: Tensor, shape: Shape) -> Tensor:
    if len(shape) == 1:
        return part
    return part.squeeze(-1) if not shape else part.unflatten(-1, shape)


def column_name(role: str, name: str) -> str:
    return f"{role}.{name}" if name else role
