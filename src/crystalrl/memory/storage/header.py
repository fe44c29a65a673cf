"""The header of a memory's file, checked before anything is allocated for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crystalrl.memory.storage.layout import WORD, stored_layout
from crystalrl.memory.storage.spec import STRUCTURE, StorageSpec, storage_from_json

DEEPEST = 32
"""Nesting of a header; ours has up to 4 levels."""
LARGEST = 1 << 62
"""Bound on the whole numbers of a memory's header."""

SMALL, SPARSE = 1 << 30, 1000
"""`load_memory` refuses memories of more bytes than the first, and more than this many times those in the file."""


class CheckpointError(ValueError):
    """The file is damaged, of another version, or does not fit."""


@dataclass(frozen=True)
class Header:
    """What a file says about its memory."""

    kind: str
    """Name of the class."""
    options: dict[str, Any]
    """Constructor arguments for the storage."""
    params: dict[str, Any]
    spec: StorageSpec


def parse(text: str) -> dict[str, Any]:
    """A JSON object; CheckpointError for anything else."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"header: wanted JSON, got {short(text)} ({type(error).__name__})") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"header: wanted an object, got {short(text)}")
    if any(depth > DEEPEST for _, depth in _values(header)):
        raise CheckpointError(f"header: wanted at most {DEEPEST} levels, got more")
    return header


def understand(header: Mapping[str, Any], state: Mapping[str, Tensor]) -> Header:
    """The header of a memory, whose lanes must be those of the stored `state`."""
    for name, kind in (("kind", str), ("structure", dict), ("params", dict)):
        if not isinstance(header.get(name), kind):
            raise CheckpointError(f"header: wanted {name} as {kind.__name__}, got {short(header.get(name))}")
    numbers = (value for value, _ in _values(header) if isinstance(value, int))
    if any(abs(number) >= LARGEST for number in numbers):
        raise CheckpointError(f"header: wanted whole numbers below {LARGEST}, got larger ones")
    structure = header["structure"]
    if set(structure) - {"stack"} != set(STRUCTURE):
        raise CheckpointError(f"header: wanted structure with {', '.join(STRUCTURE)}, got {short(list(structure))}")
    if not isinstance(structure["context"], bool):
        raise CheckpointError(f"header: wanted context as bool, got {short(structure['context'])}")
    seeds = state.get("streams.seeds")
    if seeds is None or seeds.dim() != 1 or seeds.dtype != torch.int64:
        raise CheckpointError("state streams.seeds: wanted int64[L], got something else")
    try:
        options = {**storage_from_json(structure), "seed": seeds.tolist()}
        spec = StorageSpec(**options)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"header: wanted the structure of a memory, got {short(structure)} ({error})") from error
    return Header(header["kind"], options, header["params"], spec)


def refuse_other_shapes(wanted: Mapping[str, tuple[int, ...]], state: Mapping[str, Tensor]) -> None:
    """Raise if stored tensors have other shapes than the header implies."""
    for name, shape in wanted.items():
        got = state.get(name)
        if got is None or tuple(got.shape) != shape:
            found = "nothing" if got is None else list(got.shape)
            raise CheckpointError(f"state {name}: wanted shape {short(list(shape))}, got {found}")


def refuse_sparse(header: Header, state: Mapping[str, Tensor]) -> None:
    """Raise if a large memory would be built for a file that holds hardly anything: a few bytes must not claim GBs."""
    spec = header.spec
    claimed = (spec.lanes or 1) * spec.capacity * stored_layout(spec).words * WORD
    if claimed > max(SMALL, SPARSE * sum(tensor.nbytes for tensor in state.values())):
        raise CheckpointError(
            f"capacity: wanted a memory that is less empty, got one of {claimed / 1e9:.3g} GB and hardly anything in "
            "the file; if that is right, build the memory and call its `load`"
        )


def short(value: object) -> str:
    """The beginning of the text of `value`."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _values(value: Any) -> Iterator[tuple[Any, int]]:
    """Everything inside a JSON value, with its depth; deeper than `DEEPEST` nothing is opened."""
    todo = [(value, 0)]
    while todo:
        value, depth = todo.pop()
        yield value, depth
        if depth <= DEEPEST and isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            todo += [(each, depth + 1) for each in inner]
