"""Reservoir replay: the most recent experiences, and a uniform sample of everything older.

Stored experiences do not move. An experience that is no longer recent is offered to the reservoir: it replaces a random
member or is dropped, and the new experience is written to the slot that this frees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.ledger import CountedLedger
from crystalrl.memory.sampling.sampler import Draw, UniformSampler
from crystalrl.memory.storage.checks import Named, Problems, between
from crystalrl.memory.storage.spec import StorageOptions, StorageSpec
from crystalrl.random import Stream, Streams


@dataclass(frozen=True)
class ReservoirParams:
    """How a reservoir memory divides its slots and its batches."""

    recent: float = 0.5
    """Share of the slots that hold the most recent experiences; 0: a pure reservoir, 1: first in, first out."""
    recent_batch: float = 0.5
    """Share of a batch drawn from the recent experiences (all of it while there are no older ones)."""

    def __post_init__(self) -> None:
        for name in ("recent", "recent_batch"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: wanted a number in [0, 1], got {getattr(self, name)}")


class ReservoirLedger(CountedLedger):
    """Slots by role. Invariant: the filled parts of `recent` and `reserved` together name every occupied slot once.

    `recent` int64[L, R] is a ring in order of arrival; `reserved` int64[L, K] has no order; R + K = N.
    """

    def __init__(self, lanes: int, slots: int, streams: Streams, params: ReservoirParams) -> None:
        super().__init__(lanes, slots, streams)
        self.params, self.window, device = params, round(params.recent * slots), streams.device
        # one spare column each, for writes that are skipped
        self.recent = torch.zeros(lanes, self.window + 1, dtype=torch.int64, device=device)
        self.reserved = torch.zeros(lanes, slots - self.window + 1, dtype=torch.int64, device=device)
        if device.type == "cpu":
            self._recent, self._reserved = self.recent.numpy(), self.reserved.numpy()

    @property
    def filled(self) -> tuple[Tensor, Tensor]:
        """int64[L] each: recent and reserved experiences."""
        return self.number.clamp_max(self.window), (self.number - self.window).clamp(0, self.slots - self.window)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.recent.nbytes + self.reserved.nbytes

    def allocate(self, valid: Tensor) -> Tensor:
        """See `Ledger.allocate`. Done in parts of at most R, so that no experience enters and leaves the window in one
        part, and at most 64, because repeated positions are found by comparing all pairs. An experience that a later
        one of the same call replaces is not kept.
        """
        longest = max(self.window, 1)
        slots = torch.cat([self._allocate(part) for part in valid.split(min(longest, 64), dim=1)], dim=1)
        return slots if valid.shape[1] <= longest else self._last_of_each(slots)

    def _last_of_each(self, slots: Tensor) -> Tensor:
        """slots [L, M], with −1 where the same slot follows later: the result of writing a slot twice is undefined."""
        order = torch.arange(slots.shape[1], device=slots.device).expand_as(slots)
        at = torch.where(slots < 0, self.slots, slots)
        last = torch.zeros(self.lanes, self.slots + 1, dtype=torch.int64, device=slots.device)
        last.scatter_reduce_(1, at, order, "amax")
        return torch.where(last.gather(1, at) == order, slots, -1)

    def _allocate(self, valid: Tensor) -> Tensor:
        window, room = self.window, self.slots - self.window
        rank = valid.cumsum(-1) - 1
        number = self.number[:, None] + rank
        self.number += rank[:, -1] + 1
        old = number - window  # how many were offered to the reservoir before
        entry = torch.where(valid, number % window, window) if window else torch.zeros_like(number)
        leaving = self.recent.gather(1, entry) if window else torch.full_like(number, -1)
        position = (self.streams.at(Stream.PLACE, number) * (old + 1).clamp_min(1)).to(torch.int64)
        position = torch.where(old < room, old, position)
        admitted = valid & (old >= 0) & (position < room)
        position = torch.where(admitted, position, room)
        freed = torch.where(
            old < room, number.clamp_max(self.slots - 1), self._freed_slots(position, leaving, admitted)
        )
        slots = torch.where(admitted | (old < 0), freed, leaving)
        if window:
            slots = torch.where(old < 0, number, slots)
            self.recent.scatter_(1, entry, slots)
        self._put_members(position, leaving if window else slots)
        return torch.where(valid, slots, -1)

    def _freed_slots(self, position: Tensor, leaving: Tensor, admitted: Tensor) -> Tensor:
        """Slot freed at a reservoir position [L, M]: its member's, or that of the last to replace it in this call."""
        earlier = (position[:, :, None] == position[:, None, :]) & admitted[:, None, :] & admitted[:, :, None]
        order = torch.arange(position.shape[1], device=position.device)
        last = ((order[None, :] < order[:, None]) & earlier).long().mul(order + 1).amax(-1)
        held = self.reserved.gather(1, position)
        return torch.where(last > 0, leaving.gather(1, (last - 1).clamp_min(0)), held)

    def _put_members(self, position: Tensor, slots: Tensor) -> None:
        """reserved[position] = slot, in order: of repeated positions the last counts; others go to the spare column."""
        order = torch.arange(position.shape[1], device=position.device)
        later = ((position[:, :, None] == position[:, None, :]) & (order[None, :] > order[:, None])).any(-1)
        self.reserved.scatter_(1, torch.where(later, self.reserved.shape[1] - 1, position), slots)

    def admit(self, slots: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        if slots.size == 1:
            slots[0, 0] = self._allocate_one()
        else:
            slots[:] = self.allocate(torch.from_numpy(np.ones(slots.shape, bool)))
        time += slots.shape[1]

    def _allocate_one(self) -> int:
        """`allocate` in plain numbers, for one experience in one lane on CPU."""
        window, room, recent, reserved = self.window, self.slots - self.window, self._recent[0], self._reserved[0]
        number = int(self._number[0])
        self._number[0] += 1
        old = number - window  # how many were offered to the reservoir before
        slot = leaving = int(recent[number % window]) if window else -1
        if old < 0:
            slot = number
        else:
            position = old if old < room else int(self.streams.one_at(Stream.PLACE, number) * (old + 1))
            if position < room:
                slot = number if old < room else int(reserved[position])
                reserved[position] = leaving if window else slot
        if window:
            recent[number % window] = slot
        return slot

    def sampler(self) -> ReservoirSampler:
        return ReservoirSampler(self.streams, self)

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), "recent": self.recent, "reserved": self.reserved}

    def problems(self, state: Named, width: int) -> Problems:
        yield from super().problems(state, width)
        for name in ("recent", "reserved"):
            yield from between(name, state[name], -1, self.slots - 1)
        counts = state["number"].clamp(0, self.slots).tolist()
        for lane, count in enumerate(counts):
            recent = min(count, self.window)
            named = torch.cat([state["recent"][lane, :recent], state["reserved"][lane, : count - recent]])
            if not torch.equal(named.sort().values, torch.arange(count, device=named.device)):
                yield f"reservoir, lane {lane}: wanted lists that name every occupied slot once, got others"


@dataclass(frozen=True)
class ReservoirSampler(UniformSampler):
    """Part of each batch comes from the recent experiences, the rest from the reservoir; within a part, all are equally
    likely.
    """

    ledger: ReservoirLedger

    def draw(self, size: int, time: Tensor) -> Draw:
        ledger, uniform = self.ledger, self.streams.uniform(Stream.DRAW, size)
        recent, reserved = ledger.filled
        share = torch.where(reserved > 0, round(ledger.params.recent_batch * size), size)
        share = torch.where(recent > 0, share, 0)
        from_recent = torch.arange(size, device=uniform.device) < share[:, None]
        new = ledger.recent.gather(1, _scaled(uniform, recent[:, None]))
        old = ledger.reserved.gather(1, _scaled(uniform, reserved[:, None]))
        weight = torch.ones(uniform.shape, dtype=torch.float32, device=uniform.device)
        return Draw(torch.where(from_recent, new, old), weight)


def _scaled(uniform: Tensor, count: Tensor) -> Tensor:
    """Integers int64[L, B] uniform in 0 … count − 1 from uniforms float64[L, B] and counts int64[L, 1]."""
    if uniform.device.type == "cpu":  # takes a third of torch's time for a batch
        return torch.from_numpy((uniform.numpy() * count.numpy()).astype(np.int64))
    return (uniform * count).to(torch.int64)


class ReservoirMemory(ReplayMemory):
    """The most recent experiences and a uniform sample of everything older. `ReservoirParams` documents the shares."""

    codes_frames = True
    params: ReservoirParams
    ledger: ReservoirLedger

    def __init__(
        self,
        capacity: int,
        *,
        recent: float = 0.5,
        recent_batch: float = 0.5,
        **storage: Unpack[StorageOptions],
    ) -> None:
        params = ReservoirParams(recent, recent_batch)
        super().__init__(StorageSpec.of(type(self), capacity, storage))
        self.params = params
        self.ledger = ReservoirLedger(self.lanes, self.capacity, self.streams, params)
        self.sampler = self.ledger.sampler()

    @classmethod
    def _sizes(cls, spec: StorageSpec, params: Mapping[str, Any], state: Named) -> dict[str, tuple[int, ...]]:
        lanes, window = spec.lanes or 1, round(ReservoirParams(**params).recent * spec.capacity)
        lists = {"ledger.recent": (lanes, window + 1), "ledger.reserved": (lanes, spec.capacity - window + 1)}
        return super()._sizes(spec, params, state) | lists
