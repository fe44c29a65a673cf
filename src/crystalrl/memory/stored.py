"""The part of a memory that saves and loads its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from os import PathLike
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from crystalrl.memory.exclusive import Calls, exclusive
from crystalrl.memory.ledger import Ledger
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.checks import Named, Problems, between, counters, part, refuse
from crystalrl.memory.storage.external import AnyArena
from crystalrl.memory.storage.header import CheckpointError, refuse_other_shapes, short, understand
from crystalrl.memory.storage.layout import Layout, stored_layout
from crystalrl.memory.storage.nstep import NStep
from crystalrl.memory.storage.spec import StorageSpec, storage_to_json
from crystalrl.random import Streams

UNBUILDABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError, RuntimeError)
"""Raised by a constructor that is given invalid parameters."""


class StoredMemory(ABC):
    """State as named tensors. Invariant: a state is checked completely before any of it is written."""

    kinds: ClassVar[dict[str, type[StoredMemory]]] = {}
    """Memory classes by the name stored in files."""
    params: object
    spec: StorageSpec
    device: torch.device
    ledger: Ledger
    arena: AnyArena
    windows: NStep | None
    streams: Streams
    time: Tensor
    calls: Calls

    def __init_subclass__(cls, complete: bool = True) -> None:
        """complete: whether the class is a kind of memory, rather than a part of one."""
        if complete:
            StoredMemory.kinds[cls.__name__] = cls

    @abstractmethod
    def clear(self) -> None: ...

    @classmethod
    def _restore(cls, storage: dict[str, Any], params: dict[str, Any]) -> Self:
        """A memory built from the header of its file."""
        return cls(**params, **storage)

    @classmethod
    def _sizes(cls, spec: StorageSpec, params: Mapping[str, Any], state: Named) -> dict[str, tuple[int, ...]]:
        """Shapes of stored tensors that follow from the header. They are compared before a memory is built for it."""
        lanes, words = spec.lanes or 1, stored_layout(spec).words
        sizes: dict[str, tuple[int, ...]] = {"memory.slot.rows": (lanes, cls._used(spec, state), words)}
        if spec.n_step > 1:
            sizes["windows.rows"] = (lanes, spec.envs, spec.n_step, Layout(spec).words)
        return sizes

    @classmethod
    def _used(cls, spec: StorageSpec, state: Named) -> int:
        """Slots that a state must hold: those below the last occupied one."""
        return min(max(int(state["ledger.number"].max()), 0), spec.capacity)

    def _tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state. Those named `…slot.…` are [L, N, …]: files hold only their used part."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "memory": {"slot.rows": self.arena.rows, "time": self.time},
            "ledger": self.ledger.tensors(),
            "streams": self.streams.tensors(),
            "windows": self.windows.tensors() if self.windows is not None else {},
        }
        return {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def _problems(self, state: Named) -> Problems:
        """What is wrong with a state, live or stored, whose names, shapes and dtypes fit."""
        rows = state["memory.slot.rows"]
        yield from counters(state, "memory.time", "streams.ticks")
        yield from between("streams.seeds", state["streams.seeds"], 0, 2**63 - 1)
        yield from self.ledger.problems(part(state, "ledger"), rows.shape[1])
        yield from self.arena.problems(rows, part(state, "frames"))
        if self.windows is not None:
            yield from self.windows.problems(part(state, "windows"), self.spec.action)

    @exclusive
    def state_dict(self) -> dict[str, Tensor]:
        """The complete state, as tensors on CPU."""
        used = self.ledger.used
        own = {
            name: (tensor[:, :used] if ".slot." in name else tensor).detach().to("cpu", copy=True).contiguous()
            for name, tensor in self._tensors().items()
        }
        return own | self.arena.state()

    @exclusive
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load `state`. Raises CheckpointError, with nothing changed, if it does not fit or is not a possible state."""
        own, state = self._tensors(), self.arena.current(checkpoint.without_draws(state))
        if odd := sorted(map(str, set(state) ^ {*own, *self.arena.own_state})):
            raise CheckpointError(
                f"state: wanted the tensors of {type(self).__name__}, got others: {', '.join(odd[:6])}"
            )
        for name, tensor in own.items():
            checkpoint.refuse_other(name, tensor, state[name])
        for name in self.arena.own_state:
            checkpoint.checked_tensor(name, state[name])
        widths = {name: state[name].shape[1] for name in own if ".slot." in name}
        if len(set(widths.values())) > 1:
            raise CheckpointError(f"state: wanted the same number of slots everywhere, got {widths}")
        refuse(self._problems(state), CheckpointError)
        self.clear()
        self.ledger.forget_draws()
        for name, tensor in own.items():
            given = state[name]
            (tensor[:, : given.shape[1]] if ".slot." in name else tensor).copy_(given)
        self.arena.fill(part(state, "frames"))
        self.streams.refresh()
        self.ledger.refresh()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the memory to one file. If that fails, the previous file is unchanged."""
        checkpoint.write(path, self._header(), self.state_dict())

    @exclusive
    def load(self, path: str | PathLike[str]) -> None:
        """Load the state of a memory of the same kind and structure from a file. On any error nothing is changed."""
        header, state = checkpoint.read(path)
        own = self._header()
        for name in ("kind", "structure"):
            if header.get(name) != own[name]:
                raise CheckpointError(f"{path}: wanted {name} {own[name]}, got {short(header.get(name))}")
        try:
            self.load_state_dict(state)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error

    def _header(self) -> dict[str, Any]:
        params = asdict(self.params) if is_dataclass(self.params) and not isinstance(self.params, type) else {}
        return {"kind": type(self).__name__, "structure": storage_to_json(self.spec), "params": params}


def restored(header: Mapping[str, Any], state: Named, device: str | torch.device) -> StoredMemory:
    """The memory that a header and a state describe, or CheckpointError. The two are compared before it is built."""
    torch.empty(0, device=device)  # an unknown device is not an error in the file
    known = understand(header, state)
    if known.kind not in StoredMemory.kinds:
        raise CheckpointError(f"kind: wanted one of {sorted(StoredMemory.kinds)}, got {short(known.kind)}")
    kind = StoredMemory.kinds[known.kind]
    try:
        refuse_other_shapes(kind._sizes(known.spec, known.params, state), state)
        memory = kind._restore({**known.options, "device": device}, known.params)
    except CheckpointError:
        raise
    except UNBUILDABLE as error:
        raise CheckpointError(f"header: wanted the parameters of a {known.kind}, got others ({error!r})") from error
    memory.load_state_dict(state)
    return memory
