"""Ledgers decide which slots are written. They know nothing about observations.

`allocate` returns slots to write, `commit` confirms that they were written. `sampler` makes the object that decides
which of them are drawn. Another library may keep its own storage and use only a ledger and its sampler.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.backends.protocols import Entry
from crystalrl.memory.sampling.sampler import Sampler, UniformSampler
from crystalrl.memory.storage.checks import Named, Problems, counters, refuse
from crystalrl.random import Streams


class Ledger(Protocol):
    """Bookkeeping of L lanes × N slots. `tensors` returns its whole state."""

    @property
    def count(self) -> Tensor:
        """int64[L]: occupied slots."""

    @property
    def used(self) -> int:
        """All occupied slots of all lanes are below this one."""

    @property
    def nbytes(self) -> int: ...
    def allocate(self, valid: Tensor) -> Tensor:
        """Slots int64[L, M] for new experiences, in order; −1 where valid bool[L, M] is False or the experience is not
        kept.

        Raises, with nothing changed, if there are fewer than M. While a CUDA graph is recorded, `reserve` does that.
        """

    def reserve(self, width: int) -> None:
        """The part of `allocate` that runs on the host, for `width` slots of each lane."""

    def commit(self, slots: Tensor, c: Tensor | None = None) -> None:
        """Confirm that the rows of the allocated slots int64[L, M] are stored; c float32[L, 1 or M]: their
        initial crystallization, of which only a crystal ledger knows."""

    def admit(self, slots: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        """On the host: `allocate` slots [L, M] for M experiences of every lane, advance its time int64[L] by M, and
        `commit`. Raises, with nothing changed, if there are fewer."""

    def sampler(self) -> Sampler:
        """A sampler of the experiences, now and later: it reads the ledger at each draw."""

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state, by their stored names; [L, N] ones are named `slot.…`."""

    def refresh(self) -> None:
        """Recompute what follows from `tensors` after they were loaded."""

    def clear(self) -> None:
        """Forget all experiences. Updates for earlier draws are skipped."""

    def forget_draws(self) -> None:
        """Updates for earlier draws will be skipped, whatever is loaded next."""

    def problems(self, state: Named, width: int) -> Problems:
        """What is wrong with a state, live or stored, of which the first `width` slots are given."""

    def check(self) -> None: ...


class CountedLedger:
    """Base of ledgers that fill slots in order and never free them. Invariant: `number` int64[L] counts all experiences
    allocated so far.
    """

    def __init__(self, lanes: int, slots: int, streams: Streams) -> None:
        self.lanes, self.slots, self.streams = lanes, slots, streams
        self.backend = backend_for(streams.device)
        self.number = torch.zeros(lanes, dtype=torch.int64, device=streams.device)
        self._number: NDArray[np.int64] = self.number.numpy() if self.backend.on_host else np.empty(0, np.int64)

    @property
    def count(self) -> Tensor:
        return self.number.clamp_max(self.slots)

    @property
    def used(self) -> int:
        return int(self.count.max())

    @property
    def nbytes(self) -> int:
        return self.number.nbytes

    def reserve(self, width: int) -> None:
        pass

    def commit(self, slots: Tensor, c: Tensor | None = None) -> None:
        pass

    def sampler(self) -> Sampler:
        return UniformSampler(self.streams, self)

    def tensors(self) -> dict[str, Tensor]:
        return {"number": self.number}

    def refresh(self) -> None:
        pass

    def clear(self) -> None:
        self.number.zero_()

    def forget_draws(self) -> None:
        pass

    def problems(self, state: Named, width: int) -> Problems:
        yield from counters(state, "number")
        if int(state["number"].max()) > width < self.slots:
            yield f"number: wanted at most the {width} stored experiences, got {int(state['number'].max())}"

    def check(self) -> None:
        refuse(self.problems(self.tensors(), self.slots), AssertionError)


class RingLedger(CountedLedger):
    """First in, first out. Invariant: experience number i of a lane is in slot i mod N."""

    def allocate(self, valid: Tensor) -> Tensor:
        return self.backend.writes.allocate(valid, self.number, self.slots)

    def admit(self, slots: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        self._entry(slots, time)

    @cached_property
    def _entry(self) -> Entry:
        return self.backend.entry(self.number, self.slots)
