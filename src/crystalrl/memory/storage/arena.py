"""The payload: one packed row per slot. The arena knows nothing about priorities or phases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.backends.alloc import zeros
from crystalrl.memory.storage.checks import Named, Problems, row_problems
from crystalrl.memory.storage.layout import WORD, Layout, column_name
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.types import Observation


def available_bytes(device: torch.device) -> int:
    """Memory that can still be allocated on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def refuse_if_too_large(wanted: int, device: torch.device, what: str) -> None:
    """Raise MemoryError, with the numbers, before an allocation that cannot fit."""
    free = available_bytes(device)
    if wanted > free:
        raise MemoryError(f"{what} needs {wanted / 1e9:.3g} GB on {device}, {free / 1e9:.3g} GB available")


class Payload:
    """What a memory asks of its storage besides reading and writing. Only storage that keeps each frame once has
    anything to do."""

    own_state: ClassVar[tuple[str, ...]] = ()
    """Names of the tensors of `state`."""

    def reserve(self, width: int) -> None:
        """Make room for `width` experiences of each lane. Raises MemoryError, with nothing changed, if it cannot."""

    def clear(self) -> None:
        """Forget everything: the memory has forgotten all experiences."""

    def state(self) -> dict[str, Tensor]:
        """Copies of what is stored besides `rows`."""
        return {}

    def fill(self, state: Named) -> None:
        """Load `state`, once `rows` are loaded."""

    def current(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """A memory's stored state, with this storage's part as this version writes it. Raises CheckpointError."""
        return state


class Arena(Payload):
    """Rows of L lanes × N slots. The ledger knows which of them are occupied."""

    def __init__(self, spec: StorageSpec, layout: Layout) -> None:
        self.spec, self.layout = spec, layout
        self.lanes, self.slots = spec.lanes or 1, spec.capacity
        self.device = torch.device(spec.device)
        backend, words = backend_for(self.device), layout.words
        self._writes, self._store = backend.writes, backend.store
        size = self.lanes * self.slots * words * WORD
        refuse_if_too_large(size, self.device, f"a memory of {self.lanes} × {self.slots} experiences")
        stride = self.slots + (not backend.on_host)  # on a GPU, one spare slot for skipped writes
        rows = zeros((self.lanes, stride, words), torch.int64, self.device)
        self.rows, self.flat_rows = rows[:, : self.slots], rows.view(-1, words)
        self._base = torch.arange(self.lanes, device=self.device)[:, None] * stride
        self.columns = layout.torch_views(self.flat_rows)
        """Every field as a view [rows, …] of `flat_rows`; see `position`."""
        if self.device.type == "cpu":
            self._numpy_rows = self.flat_rows.numpy()

    def write(self, rows: Tensor, slots: Tensor) -> None:
        """Store rows int64[L, M, W] in slots int64[L, M]; a negative slot is skipped."""
        self._writes.store_rows(rows, slots, self.flat_rows)

    def put(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """`write` of arrays, on the host."""
        self._store(rows, slots, self._numpy_rows)

    def flat(self, slots: Tensor) -> Tensor:
        """Position [L·B] of slots int64[L, B] in `flat_rows`."""
        return slots.reshape(-1) if self.lanes == 1 else (slots + self._base).reshape(-1)

    def position(self, lane: Tensor, slot: Tensor) -> Tensor:
        """Row of `flat_rows` and `columns` that holds a slot of a lane; shapes broadcast."""
        return slot if self.lanes == 1 else slot + self._base[:, 0][lane]

    def read(self, slots: Tensor) -> Tensor:
        """Rows int64[L, B, W] of slots int64[L, B]."""
        return self.flat_rows.index_select(0, self.flat(slots)).view(self.lanes, slots.shape[1], self.layout.words)

    def read_lane(self, lane: int, slots: Tensor) -> Tensor:
        """Rows int64[B, W] of slots int64[B] of one lane."""
        return self.rows[lane, slots]

    def fields(self, slots: int | None = None) -> Mapping[str, Any]:
        """Fields [L, W, …] of the first W slots (None: all) by role, as `unpack` gives them."""
        return self.unpack(self.rows[:, :slots])

    def copy_rows(self, source: Self, at: Tensor) -> None:
        """Copy the rows at the positions int64[M] from an arena of the same structure."""
        self.flat_rows[at] = source.flat_rows[at]

    def read_fields(self, slots: Tensor, squeeze: bool) -> dict[str, Any]:
        """`unpack(read(slots))` on CPU through NumPy, whose views cost a fifth of torch's; squeeze: no lane axis."""
        at = slots.numpy()
        rows = self._numpy_rows.take(at[0] if squeeze else at + self._base.numpy(), axis=0)
        views = self.layout.numpy_views(rows, without="ending")
        return self._by_role({name: torch.from_numpy(view) for name, view in views.items()})

    def unpack(self, rows: Tensor) -> dict[str, Any]:
        """Fields of rows by role: obs, action, reward, next_obs, discount, context (or None)."""
        return self._by_role(self.layout.torch_views(rows))

    def endings(self, rows: Tensor) -> Tensor:
        """uint8[…] of rows int64[…, W]: TERMINATED, TRUNCATED or 0."""
        return self.layout.torch_views(rows)["ending"]

    def _by_role(self, views: Mapping[str, Tensor]) -> dict[str, Any]:
        return {
            "obs": self._observation(views, "obs"),
            "action": views["action"],
            "reward": views["reward"],
            "next_obs": self._observation(views, "next_obs"),
            "discount": views["discount"],
            "context": views.get("context"),
        }

    def _observation(self, views: Mapping[str, Tensor], role: str) -> Observation:
        if not isinstance(self.spec.obs, Mapping):
            return views[role]
        return {name: views[column_name(role, name)] for name in self.spec.obs}

    def problems(self, rows: Tensor, state: Named) -> Problems:
        """What is wrong with rows int64[L, W, words] and the other `state`, live (then it is empty) or stored."""
        return row_problems(self.layout, self.spec.action, rows)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes
