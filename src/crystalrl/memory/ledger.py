"""Which slot to write, which to draw: the part of a memory that knows nothing of observations.

A foreign library may keep its own storage and borrow only a ledger: `place` says where to write, `commit` that it was
done, `draw` what to replay and with which weight, `update` what was learnt.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl import backends
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
    def allocate(self, valid: Tensor) -> Tensor:
        """Slots int64[L, M] for new experiences, in order; −1 where valid bool[L, M] is False or it is not kept."""

    def commit(self, slots: Tensor) -> None:
        """The rows of the placed slots int64[L, M] are stored now."""

    def add_one(self) -> int:
        """`place` and `commit` in one, for a single experience of the only lane, on CPU; the row follows at once."""

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

    def clear(self) -> None:
        """Forget all experiences. Updates that answer draws from before are skipped."""

    def forget_draws(self) -> None:
        """Forget such draws, too: what was drawn before has nothing to do with what comes."""

    def check(self) -> None: ...


class Counted:
    """What ledgers share that fill their slots in order. Invariant: `number[l]` experiences were ever placed."""

    def __init__(self, lanes: int, slots: int, streams: Streams) -> None:
        self.lanes, self.slots, self.streams = lanes, slots, streams
        self.number = torch.zeros(lanes, dtype=torch.int64, device=streams.device)
        self._kernels, self._fused = backends.of(streams.device), backends.fused_for(streams.device)
        self._number: NDArray[np.int64] = self.number.numpy() if self._kernels else np.empty(0, np.int64)

    @property
    def count(self) -> Tensor:
        return self.number.clamp_max(self.slots)

    @property
    def used(self) -> int:
        return int(self.count.max())

    @property
    def nbytes(self) -> int:
        return self.number.nbytes

    def commit(self, slots: Tensor) -> None:
        pass

    def update(self, slots: Tensor, magnitude: Tensor) -> None:
        pass

    def holds(self, slots: Tensor) -> bool:
        if self._kernels is not None:
            return bool(self._kernels.below(slots.numpy(), self._number))
        return bool((slots.amax(-1) < self.number).all())

    def tensors(self) -> dict[str, Tensor]:
        return {"number": self.number}

    def refresh(self) -> None:
        pass

    def clear(self) -> None:
        self.number.zero_()

    def forget_draws(self) -> None:
        pass

    def check(self) -> None:
        if bool((self.number < 0).any()):
            raise AssertionError("ledger: a negative number of experiences")


class Ring(Counted):
    """First in, first out. Invariant: the last N experiences lie in order of slot."""

    def allocate(self, valid: Tensor) -> Tensor:
        if self._kernels is not None:
            wanted = valid.numpy()
            rank = wanted.cumsum(-1) - 1
            slots = np.where(wanted, (self._number[:, None] + rank) % self.slots, -1)
            self._number += rank[:, -1] + 1
            return torch.from_numpy(slots)
        if self._fused is not None:
            placed: Tensor = self._fused.place(valid, self.number, self.slots)
            return placed
        place = valid.cumsum(-1) - 1
        at = (self.number[:, None] + place) % self.slots
        self.number += place[:, -1] + 1
        return torch.where(valid, at, -1)

    def add_one(self) -> int:
        number = int(self._number[0])
        self._number[0] = number + 1
        return number % self.slots


class UniformLedger(Ring):
    """Every stored experience is equally likely; the oldest makes room."""

    def draw(self, size: int, time: Tensor) -> tuple[Tensor, Tensor]:
        slots = self.streams.integers(Stream.DRAW, size, self.count)
        return slots, torch.ones(slots.shape, device=slots.device)


def scaled(uniform: Tensor, count: Tensor) -> Tensor:
    """Integers int64[L, B] uniform in 0 … count − 1 from uniforms float64[L, B] and counts int64[L, 1]."""
    if uniform.device.type == "cpu":  # a third of torch's time at batch size
        return torch.from_numpy((uniform.numpy() * count.numpy()).astype(np.int64))
    return (uniform * count).to(torch.int64)
