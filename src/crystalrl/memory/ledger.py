"""Which slot to write, which to draw: the part of a memory that knows nothing of observations.

A foreign library may keep its own storage and borrow only a ledger: `place` says where to write, `written` that it was
done, `draw` what to replay and with which weight, `update` what was learnt.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from crystalrl.random import Stream, Streams


class Ledger(Protocol):
    """Bookkeeping of L lanes × N slots. Every tensor it keeps is named in `tensors`; that is its whole state."""

    @property
    def count(self) -> Tensor:
        """int64[L]: occupied slots."""

    @property
    def used(self) -> int:
        """Slots below which everything lies that is occupied, in any lane."""

    @property
    def nbytes(self) -> int: ...
    def place(self, valid: Tensor) -> Tensor:
        """Slots int64[L, M] for new experiences, in order; −1 where valid bool[L, M] is False or it is not kept."""

    def written(self, slots: Tensor) -> None:
        """The rows of the placed slots int64[L, M] are stored now."""

    def place_one(self) -> int:
        """`place` and `written` in one, for a single experience of the only lane, on CPU; the row follows at once."""

    def draw(self, size: int, time: Tensor) -> tuple[Tensor, Tensor]:
        """Slots int64[L, B] and weights float32[L, B]; `time` int64[L] counts environment steps."""

    def update(self, slots: Tensor, magnitude: Tensor) -> None:
        """Record |TD error| float32[L, B] of drawn slots int64[L, B]; those rewritten since are skipped."""

    def holds(self, slots: Tensor) -> bool:
        """Whether every slot int64[L, B] is occupied (this waits for the device)."""

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state; [L, N] ones are named `slot.…`."""

    def refresh(self) -> None:
        """Recompute what follows from `tensors` after they were loaded."""

    def clear(self) -> None: ...
    def check(self) -> None: ...


class Ring:
    """First in, first out. Invariant: `number[l]` experiences were ever placed, the last N of them in order of slot."""

    def __init__(self, lanes: int, slots: int, device: torch.device) -> None:
        self.slots = slots
        self.number = torch.zeros(lanes, dtype=torch.int64, device=device)
        self._number = self.number.numpy() if device.type == "cpu" else None

    @property
    def count(self) -> Tensor:
        return self.number.clamp_max(self.slots)

    def place(self, valid: Tensor) -> Tensor:
        if self._number is not None:
            wanted = valid.numpy()
            rank = wanted.cumsum(-1) - 1
            slots = np.where(wanted, (self._number[:, None] + rank) % self.slots, -1)
            self._number += rank[:, -1] + 1
            return torch.from_numpy(slots)
        place = valid.cumsum(-1) - 1
        at = (self.number[:, None] + place) % self.slots
        self.number += place[:, -1] + 1
        return torch.where(valid, at, -1)

    def place_one(self) -> int:
        """The next slot of the only lane, on CPU."""
        assert self._number is not None
        number = int(self._number[0])
        self._number[0] = number + 1
        return number % self.slots

    def holds(self, slots: Tensor) -> bool:
        return below(slots, self.number)

    def clear(self) -> None:
        self.number.zero_()


def below(slots: Tensor, number: Tensor) -> bool:
    """Whether all slots int64[L, B] are less than their lane's number int64[L]."""
    if slots.device.type == "cpu":
        highest = slots.numpy().max(-1)
        return bool(highest[0] < number[0]) if len(highest) == 1 else bool((highest < number.numpy()).all())
    return bool((slots.amax(-1) < number).all())


def scaled(uniform: Tensor, count: Tensor) -> Tensor:
    """Integers int64[L, B] uniform in 0 … count − 1 from uniforms float64[L, B] and counts int64[L, 1]."""
    if uniform.device.type == "cpu":  # a third of torch's time at batch size
        return torch.from_numpy((uniform.numpy() * count.numpy()).astype(np.int64))
    return (uniform * count).to(torch.int64)


class UniformLedger:
    """Every stored experience is equally likely; the oldest makes room."""

    def __init__(self, lanes: int, slots: int, streams: Streams) -> None:
        self.ring, self.streams = Ring(lanes, slots, streams.device), streams

    @property
    def count(self) -> Tensor:
        return self.ring.count

    @property
    def used(self) -> int:
        return int(self.count.max())

    @property
    def nbytes(self) -> int:
        return self.ring.number.nbytes

    def place(self, valid: Tensor) -> Tensor:
        return self.ring.place(valid)

    def written(self, slots: Tensor) -> None:
        pass

    def place_one(self) -> int:
        return self.ring.place_one()

    def draw(self, size: int, time: Tensor) -> tuple[Tensor, Tensor]:
        slots = self.streams.integers(Stream.DRAW, size, self.count)
        return slots, torch.ones(slots.shape, device=slots.device)

    def update(self, slots: Tensor, magnitude: Tensor) -> None:
        pass

    def holds(self, slots: Tensor) -> bool:
        return self.ring.holds(slots)

    def tensors(self) -> dict[str, Tensor]:
        return {"number": self.ring.number}

    def refresh(self) -> None:
        pass

    def clear(self) -> None:
        self.ring.clear()

    def check(self) -> None:
        if bool((self.ring.number < 0).any()):
            raise AssertionError("ring: a negative number of experiences")
