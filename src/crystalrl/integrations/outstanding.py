"""The tickets of outstanding draws, for libraries that report TD errors by slots alone."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crystalrl.types import Batch

LIMIT = 64
"""Draws that are remembered."""


class Entry(NamedTuple):
    """The ticket of a draw, and the number of outstanding draws of the same slots."""

    ticket: Tensor | None
    draws: int


class Outstanding:
    """Tickets by the slots drawn, the last LIMIT.

    Several draws of the same slots in the same order are checked against the oldest of them: an entry rewritten between
    them is skipped for all.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, batch: Batch) -> None:
        """Remember a draw of slots [B] on CPU."""
        key = _key(batch.index)
        oldest = self._entries.get(key, Entry(batch.ticket, 0))
        self._entries[key] = Entry(oldest.ticket, oldest.draws + 1)
        if len(self._entries) > LIMIT:
            self._entries.popitem(last=False)

    def take(self, slots: Tensor) -> Batch | Tensor:
        """Slots [B] with the ticket of their draw, which is then forgotten; the slots alone if no draw is known."""
        key = _key(slots)
        entry = self._entries.pop(key, None)
        if entry is None:
            return slots
        if entry.draws > 1:
            self._entries[key] = Entry(entry.ticket, entry.draws - 1)
            self._entries.move_to_end(key, last=False)
        none = torch.empty(0)
        return Batch(none, none, none, none, none, none, slots, ticket=entry.ticket)


class Lock:
    """A reentrant lock that can be pickled and copied; the copy is not locked."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()


def _key(slots: Tensor) -> bytes:
    return slots.to(torch.int64).numpy().tobytes()
