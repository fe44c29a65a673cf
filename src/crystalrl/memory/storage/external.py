"""Experiences in another library's storage.

The library stores and gathers the experiences. The memory decides where they are written, which are drawn and with
which weight; only its consolidations read the storage, through `fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.memory.storage.arena import Arena, Payload
from crystalrl.memory.storage.checks import Named, Problems
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED
from crystalrl.memory.storage.spec import StorageOptions

Fetch = Callable[[Tensor], Mapping[str, Any]]
"""Slots int64[M] → obs, action, reward, next_obs, terminated, truncated, each [M, …] (observations may be dicts)."""
BATCH_FIELDS = ("obs", "action", "reward", "next_obs", "discount", "context")


class Columns(dict[str, Tensor]):
    """Fields [N, …] of all slots, fetched on first use."""

    def __init__(self, fetch: Fetch, slots: int) -> None:
        super().__init__()
        self.fetch, self.slots = fetch, torch.arange(slots, device="cpu")

    def __missing__(self, name: str) -> Tensor:
        column: Tensor = self.fetch(self.slots)[name]
        self[name] = column
        return column


class ExternalArena(Payload):
    """Replaces `Arena` where another library stores the experiences: one lane, on CPU, one-step transitions.

    Invariant: the row of a slot is its number. Nothing is fetched before the first experiences are committed.
    """

    def __init__(self, slots: int, fetch: Fetch) -> None:
        self.fetch, self.device = fetch, torch.device("cpu")
        self.rows = torch.arange(slots, device="cpu").view(1, slots, 1)
        self.columns = Columns(fetch, slots)
        """Every field [N, …]; valid until something is written."""

    def write(self, rows: Tensor, slots: Tensor) -> None:
        raise RuntimeError("add: wanted `reserve_slots` and `commit`, because another library stores the experiences")

    def put(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        self.write(torch.from_numpy(rows), torch.from_numpy(slots))

    def invalidate(self) -> None:
        """Drop the fetched columns: the storage has changed."""
        self.columns.clear()

    def problems(self, rows: Tensor, state: Named) -> Problems:
        """What is wrong with rows int64[1, W, 1], these or stored ones."""
        if not torch.equal(rows[0, :, 0], torch.arange(rows.shape[1], device=rows.device)):
            yield "rows: wanted the numbers of the slots, got others"

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def position(self, lane: Tensor, slot: Tensor) -> Tensor:
        """Index of a slot in `columns`."""
        return slot

    def read(self, slots: Tensor) -> Tensor:
        """Rows int64[1, B, 1] of slots int64[1, B]."""
        return slots.unsqueeze(-1)

    def read_lane(self, lane: int, slots: Tensor) -> Tensor:
        """Rows int64[B, 1] of slots int64[B] of the only lane."""
        return self.rows[lane, slots]

    def fields(self, slots: int | None = None) -> Mapping[str, Any]:
        """Fields [1, W, …] of the first W slots (None: all) by role."""
        return self.unpack(self.rows[:, :slots])

    def read_fields(self, slots: Tensor, squeeze: bool) -> dict[str, None]:
        """No fields: the library gathers the experiences of a batch itself, by `Batch.index`."""
        return dict.fromkeys(BATCH_FIELDS)

    def unpack(self, rows: Tensor) -> dict[str, Any]:
        """Fields of rows int64[…, 1]: obs, action, reward, next_obs, discount, context (None)."""
        fields = {name: _reshape(value, rows.shape[:-1]) for name, value in self.fetch(rows.reshape(-1)).items()}
        fields["discount"] = 1.0 - fields.pop("terminated").to(torch.float32)
        del fields["truncated"]
        return {**fields, "context": None}

    def endings(self, rows: Tensor) -> Tensor:
        """uint8[…] of rows int64[…, 1]: TERMINATED, TRUNCATED or 0."""
        fields = self.fetch(rows.reshape(-1))
        endings: Tensor = (
            fields["terminated"].to(torch.uint8) * TERMINATED + fields["truncated"].to(torch.uint8) * TRUNCATED
        )
        return endings.reshape(rows.shape[:-1])


AnyArena = Arena | ExternalArena


def _reshape(value: Any, lead: torch.Size) -> Any:
    if isinstance(value, Mapping):
        return {name: _reshape(part, lead) for name, part in value.items()}
    return value.reshape(*lead, *value.shape[1:])


def storage_options(fields: Mapping[str, Any], actions: int | None) -> StorageOptions:
    """Shapes and dtypes of fetched fields, as arguments of a memory; `actions`: number of discrete actions, or None."""
    obs, action = fields["obs"], fields["action"]
    options: StorageOptions = {}
    if isinstance(obs, Mapping):
        options["obs"] = {name: tuple(part.shape[1:]) for name, part in obs.items()}
        options["obs_dtype"] = {name: part.dtype for name, part in obs.items()}
    else:
        options["obs"], options["obs_dtype"] = tuple(obs.shape[1:]), obs.dtype
    if actions is None:
        options["action"], options["action_dtype"] = tuple(action.shape[1:]), action.dtype
    else:
        options["action"] = actions
    return options
