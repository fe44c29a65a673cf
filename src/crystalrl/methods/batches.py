"""Batches combined from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from crystalrl.types import Anchor, Batch

Combine = Callable[..., Tensor]


def combined(how: Combine, *batches: Batch) -> Batch:
    """A batch of which every tensor [L, B, …] is `how` of the batches' tensors; all of them have the same fields."""
    return Batch(**{f.name: _combined(how, [getattr(batch, f.name) for batch in batches]) for f in fields(Batch)})


def _combined(how: Combine, values: list[Any]) -> Any:
    first = values[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return how(*values)
    if isinstance(first, Anchor):
        return Anchor(*(how(*(getattr(v, f.name) for v in values)) for f in fields(Anchor)))
    assert isinstance(first, Mapping)
    return {key: _combined(how, [value[key] for value in values]) for key in first}


def joined(*batches: Batch) -> Batch:
    """The batches one after the other."""
    return combined(lambda *parts: torch.cat(parts, dim=1), *batches)


def taken(batch: Batch, index: Tensor) -> Batch:
    """The samples int64[L, M] of a batch."""

    def pick(x: Tensor) -> Tensor:
        return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(*index.shape, *x.shape[2:]))

    return combined(pick, batch)
