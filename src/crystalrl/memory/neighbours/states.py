"""Vectors of stored experiences, read from the arena."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from crystalrl.memory.neighbours.exact import moments
from crystalrl.memory.neighbours.experiences import Experiences
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.view import View
from crystalrl.memory.storage.external import AnyArena
from crystalrl.memory.storage.frame_arena import ROLES


class StateVectors:
    """States, successor states and actions of experiences named by lane and slot, in standard deviations, or `raw`.

    Mean and deviation are those of everything stored at the last `fit`. Vectors are read from `arena`; where they are
    not compared as stored (`Features.plain`), copies are kept, which `take` writes.
    """

    max_drift: ClassVar[float] = 0.15
    """Deviations by which the stored states may move or spread before `drifted` reports it."""
    sampled: ClassVar[int] = 4096
    """Slots sampled to measure the drift."""

    def __init__(self, features: Features, arena: AnyArena, raw: bool = False) -> None:
        spec = features.spec
        self.features, self.arena, self.raw = features, arena, raw
        self.lanes, self.slots, device = spec.lanes or 1, spec.capacity, torch.device(spec.device)
        self.size = features.states(arena.fields(1)["obs"]).shape[-1]
        shape = (self.lanes, self.slots, self.size)
        self.copies: dict[str, Tensor] = {}
        if not features.plain:
            self.copies = {role: torch.zeros(shape, dtype=torch.float32, device=device) for role in ROLES}
        self.mean = torch.zeros(self.lanes, 1, self.size, dtype=torch.float32, device=device)
        self.deviation = torch.ones_like(self.mean)
        actions = 1 if features.discrete else arena.columns["action"].flatten(1).shape[1]
        self.action_deviation = torch.ones(self.lanes, 1, actions, dtype=torch.float32, device=device)

    def fit(self, view: View, lanes: Tensor) -> None:
        """Take mean and deviation from everything stored, in the lanes bool[L]."""
        here = lanes[:, None, None]
        every = torch.arange(view.slots, device=view.phase.device).expand(self.lanes, -1)
        mean, deviation = moments(self._raw("obs", every), view.occupied, view.block)
        self.mean, self.deviation = torch.where(here, mean, self.mean), torch.where(here, deviation, self.deviation)
        if not self.features.discrete:
            action = view.fields["action"].flatten(2).to(torch.float32)
            deviation = moments(action, view.occupied, view.block)[1]
            self.action_deviation = torch.where(here, deviation, self.action_deviation)

    def drifted(self, view: View) -> Tensor:
        """bool[L]: whether the stored states have moved, spread or shrunk by `max_drift` deviations, on average over
        the coordinates; from a sample, evenly over the slots of each lane."""
        width = view.width.to(view.phase.device)[:, None]
        slots = torch.arange(self.sampled, device=width.device) * -(-width // self.sampled)
        real = slots < width
        slots = torch.where(real, slots, 0)
        mean, deviation = moments(self._raw("obs", slots), view.occupied.gather(1, slots) & real, view.block)
        moved = ((mean - self.mean).abs() / self.deviation).mean((1, 2))
        spread = (deviation / self.deviation).log().abs().mean((1, 2))
        return (moved > self.max_drift) | (spread > self.max_drift)

    def take(self, slots: Tensor, real: Tensor) -> None:
        """Copy the vectors of slots int64[L, M] where real bool[L, M], if copies are kept."""
        if self.copies and slots.shape[1]:
            lane, vectors = real.nonzero()[:, 0], self.features.stored(self.arena, slots)
            for copy, states in zip(self.copies.values(), vectors, strict=True):
                copy[lane, slots[real]] = states[real]

    def _raw(self, role: str, slots: Tensor) -> Tensor:
        """float32[L, M, D] of slots int64[L, M], as stored."""
        lane = torch.arange(len(slots), device=slots.device)[:, None].expand_as(slots)
        return self._gathered(role, lane.reshape(-1), slots.reshape(-1)).view(*slots.shape, self.size)

    def _gathered(self, role: str, lane: Tensor, slot: Tensor) -> Tensor:
        """float32[P, D] of (lane, slot) [P], as stored."""
        if self.copies:
            return self.copies[role].flatten(0, 1).index_select(0, lane * self.slots + slot)
        column = self.arena.columns[role]
        return column.index_select(0, self.arena.position(lane, slot)).flatten(1).to(torch.float32)

    def vectors(self, role: str, slots: Tensor) -> Tensor:
        """float32[L, M, D] of slots int64[L, M], as they are compared."""
        vectors = self._raw(role, slots)
        return vectors if self.raw else (vectors - self.mean) / self.deviation

    def of_lane(self, role: str, lane: int, slots: Tensor) -> Tensor:
        """float32[P, D] of slots int64[P] of one lane, as they are compared."""
        vectors = self._gathered(role, torch.full_like(slots, lane), slots)
        return vectors if self.raw else (vectors - self.mean[lane]) / self.deviation[lane]

    def space(self, role: str, lane: int) -> tuple[Any, Any, Any]:
        """NumPy views of one lane, on CPU: (successor) states [N, D], states [N, D], and the factors float32[D] of the
        coordinates."""
        scale = torch.ones_like(self.deviation[lane, 0]) if self.raw else 1 / self.deviation[lane, 0]
        if self.copies:
            points, states = (self.copies[name][lane].numpy() for name in (role, "obs"))
            return points, states, scale.numpy()
        place = torch.tensor([[lane], [0]], device="cpu")
        first = int(self.arena.position(*place))
        rows = slice(first, first + self.slots)
        points, states = (self.arena.columns[name].flatten(1)[rows].numpy() for name in (role, "obs"))
        return points, states, scale.numpy()

    def distance(self, role: str, lane: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """float32[P, T]: distance of the state (or successor state) of slot one [P] to the states of other [P, T]."""
        theirs = self._gathered("obs", lane.repeat_interleave(other.shape[1]), other.reshape(-1))
        gap = theirs.view(*other.shape, self.size) - self._gathered(role, lane, one)[:, None]
        return (gap if self.raw else gap / self.deviation[lane]).square_().sum(-1).sqrt_()

    def successor_distance(self, lane: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """float32[P, T]: distance of the successor state of slot one [P] to the states of other [P, T]."""
        return self.distance("next_obs", lane, one, other)

    def all_successor_distances(self, other: Tensor) -> Tensor:
        """float32[L, W]: distance of each successor state to the state of slot other int64[L, W]."""
        lanes, width = other.shape
        far = torch.empty(lanes * width, dtype=torch.float32, device=other.device)
        for part in torch.arange(lanes * width, device=other.device).split(1 << 17):
            far[part] = self.successor_distance(part // width, part % width, other.flatten()[part, None])[:, 0]
        return far.view(lanes, width)

    def action_distance(self, lane: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """float32[P, T]: distance of box actions."""
        column = self.arena.columns["action"]
        mine = column.index_select(0, self.arena.position(lane, one)).flatten(1).to(torch.float32)
        at = self.arena.position(lane.repeat_interleave(other.shape[1]), other.reshape(-1))
        gap = column.index_select(0, at).view(*other.shape, mine.shape[1]).to(torch.float32) - mine[:, None]
        return (gap if self.raw else gap / self.action_deviation[lane]).square_().sum(-1).sqrt_()

    def column(self, name: str, lane: Tensor, slot: Tensor) -> Tensor:
        """A column of the arena, such as action, at pairs (lane, slot) of any one shape."""
        at = self.arena.position(lane.expand(slot.shape).reshape(-1), slot.reshape(-1))
        return self.arena.columns[name].index_select(0, at).view(slot.shape)

    def experiences(self, slots: Tensor, real: Tensor) -> Experiences:
        """The experiences in slots int64[L, M] as liquid ones, to be compared; empty where not real. Rewards are not
        read."""
        lane = torch.arange(self.lanes, device=slots.device)[:, None].expand_as(slots)
        at = self.arena.position(lane.reshape(-1), slots.reshape(-1))
        action = self.arena.columns["action"].index_select(0, at).to(torch.float32)
        action = action.view(*slots.shape, self.action_deviation.shape[-1])
        if not (self.features.discrete or self.raw):
            action = action / self.action_deviation
        state = self.vectors("obs", slots)
        return Experiences(
            state=state,
            action=action,
            reward=state[..., 0],
            birth=slots,
            phase=real.to(torch.uint8),
            unevaluated=real,
            context=self.column("context", lane, slots) if self.features.spec.context else None,
            discrete=self.features.discrete,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the copies."""
        return sum(copy.nbytes for copy in self.copies.values())
