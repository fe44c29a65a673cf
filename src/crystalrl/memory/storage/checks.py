"""Checks of a memory's state, live or read from a file. Each yields what is wrong as "name: wanted X, got Y"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED, Layout
from crystalrl.memory.storage.spec import FLOATS

Problems = Iterator[str]
Named = Mapping[str, Tensor]
MANY = 1 << 62
"""Counters are below this; adding to them cannot overflow."""


def refuse(problems: Problems, error: type[Exception]) -> None:
    """Raise `error` for the first problem, if there is one."""
    for problem in problems:
        raise error(problem)


def part(state: Named, name: str) -> dict[str, Tensor]:
    """The tensors `name.…` of a state, without that prefix."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in state.items() if key.startswith(f"{name}.")}


def between(name: str, values: Tensor, low: float, high: float) -> Problems:
    """Values outside low … high, or NaN."""
    fine = (values >= low) & (values <= high)
    if not bool(fine.all()):
        yield f"{name}: wanted values from {low:.6g} to {high:.6g}, got {values[~fine][0].item()}"


def finite(name: str, values: Tensor) -> Problems:
    """NaN or infinity."""
    fine = torch.isfinite(values)
    if not bool(fine.all()):
        yield f"{name}: wanted finite numbers, got {values[~fine][0].item()}"


def counters(state: Named, *names: str) -> Problems:
    """Counts that are negative or impossibly large."""
    for name in names:
        yield from between(name, state[name].to(torch.int64), 0, MANY)


def row_problems(layout: Layout, action: object, rows: Tensor) -> Problems:
    """Values in rows int64[…, W] that `add` would refuse; action: number of discrete actions, or a shape."""
    views = layout.torch_views(rows)
    for name, values in views.items():
        if values.dtype in FLOATS:
            yield from finite(name, values)
        elif values.dtype == torch.bool:
            yield from booleans(name, values)
    if isinstance(action, int):
        yield from between("action", views["action"], 0, action - 1)
    yield from between("discount", views["discount"], 0, 1)
    yield from between("ending", views["ending"], 0, TERMINATED | TRUNCATED)


def booleans(name: str, values: Tensor) -> Problems:
    """Bytes of a boolean tensor that are neither 0 nor 1."""
    yield from between(name, values.view(torch.uint8), 0, 1)
