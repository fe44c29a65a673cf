"""A crystal memory whose experiences lie in another library's storage: it borrows the slots, and keeps the ledger.

The library stores and gathers what was experienced; the memory says where to write, what to draw and with which weight.
Only a consolidation reads the storage, through `fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from crystalrl.memory import CrystalMemory
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED
from crystalrl.memory.storage.spec import StorageOptions
from crystalrl.params import CrystalParams

Fetch = Callable[[Tensor], Mapping[str, Any]]
"""Slots int64[M] → obs, action, reward, next_obs, terminated, truncated, each [M, …] (observations may be dicts)."""
ROLES = ("obs", "action", "reward", "next_obs", "discount", "context")


class Columns(dict[str, Tensor]):
    """Fields [N, …] of all slots: fetched when first asked for, kept until something is written."""

    def __init__(self, fetch: Fetch, slots: int) -> None:
        super().__init__()
        self.fetch, self.slots = fetch, torch.arange(slots)

    def __missing__(self, name: str) -> Tensor:
        column: Tensor = self.fetch(self.slots)[name]
        self[name] = column
        return column


class ForeignArena:
    """Stands for an `Arena` where the payload is elsewhere. Invariant: the row of a slot is its number."""

    def __init__(self, slots: int, fetch: Fetch) -> None:
        self.rows = torch.arange(slots).view(1, slots, 1)
        self.fetch, self.layout = fetch, self
        self.columns = Columns(fetch, slots)

    def position(self, lane: Tensor, slot: Tensor) -> Tensor:
        """Where a slot lies in `columns`: there is one lane."""
        return slot

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def read(self, slots: Tensor) -> Tensor:
        """Rows int64[1, B, 1] of slots int64[1, B]."""
        return slots.unsqueeze(-1)

    def read_fields(self, slots: Tensor, squeeze: bool) -> dict[str, Any]:
        """Nothing: whoever gets a batch of this memory has its payload gathered by the library, by `Batch.index`."""
        return dict.fromkeys(ROLES)

    def unpack(self, rows: Tensor) -> dict[str, Any]:
        """Fields of rows int64[…, 1] by role."""
        fields = {name: _shaped(value, rows.shape[:-1]) for name, value in self._fetched(rows).items()}
        fields["discount"] = 1.0 - fields.pop("terminated").to(torch.float32)
        del fields["truncated"]
        return {**fields, "context": None}

    def torch_views(self, rows: Tensor) -> dict[str, Tensor]:
        """The ends of episodes, uint8[…]."""
        fields = self._fetched(rows)
        ending = fields["terminated"].to(torch.uint8) * TERMINATED + fields["truncated"].to(torch.uint8) * TRUNCATED
        return {"ending": _shaped(ending, rows.shape[:-1])}

    def _fetched(self, rows: Tensor) -> Mapping[str, Any]:
        return self.fetch(rows.reshape(-1))


def _shaped(value: Any, lead: torch.Size) -> Any:
    if isinstance(value, Mapping):
        return {name: _shaped(part, lead) for name, part in value.items()}
    return value.reshape(*lead, *value.shape[1:])


def borrow(
    capacity: int, fetch: Fetch, params: CrystalParams, anchor: Mapping[str, tuple[int, ...]], **storage: Any
) -> CrystalMemory:
    """A memory for a foreign storage of so many slots."""
    options: StorageOptions = {**storage}  # type: ignore[typeddict-item]
    memory = CrystalMemory(capacity, params=params, anchor=anchor, **options)
    memory.arena = ForeignArena(capacity, fetch)  # type: ignore[assignment]
    return memory


def store(memory: CrystalMemory, write: Callable[[Tensor], None], ended: Tensor) -> Tensor:
    """Slots int64[M] for M new experiences, which `write` stores there; ended bool[M] says which end an episode.

    A slot is free, or has the least useful experience; among free ones the first, so that storage fills without gaps.
    """
    count, ledger = len(ended), memory.ledger
    ledger.reserve(count)
    memory.time += count
    slots = ledger.allocate(torch.ones(1, count, dtype=torch.bool))
    write(slots[0])
    memory.arena.columns.clear()
    ledger.commit(slots)
    memory.steps += count
    if memory.params.every_episode:
        memory.ended |= ended.any()
    return slots[0]


def structure(fields: Mapping[str, Any], actions: int | None) -> dict[str, Any]:
    """Shapes and dtypes of fetched experiences as arguments of a memory; `actions`: how many discrete ones, or None."""
    obs = fields["obs"]
    many = isinstance(obs, Mapping)
    shapes = {name: tuple(part.shape[1:]) for name, part in obs.items()} if many else tuple(obs.shape[1:])
    dtypes = {name: part.dtype for name, part in obs.items()} if many else obs.dtype
    action = fields["action"]
    box = {"action": tuple(action.shape[1:]), "action_dtype": action.dtype}
    return {"obs": shapes, "obs_dtype": dtypes, **(box if actions is None else {"action": actions})}
