"""Vectors of stored experiences for comparison, read where they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.neighbours import exact as neighbours

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

ROLES = ("obs", "next_obs")
MOVED = 0.15
SAMPLED = 4096


class States:
    """States, successor states and actions of experiences named by lane and slot, in standard deviations.

    Mean and deviation are those of all that was stored at the last `fit`. Vectors are read from the arena; where they
    are projected or the user's own features, copies are kept, written by `take`.
    """

    def __init__(self, memory: CrystalMemory) -> None:
        self.memory = memory
        self.copies: dict[str, Tensor] = {}
        size = memory.features(memory.arena.unpack(memory.arena.rows[:, :1])["obs"]).shape[-1]
        if not memory.plain_states:
            shape = (memory.lanes, memory.capacity, size)
            self.copies = {role: torch.zeros(shape, device=memory.device) for role in ROLES}
        self.size = size
        self.mean = torch.zeros(memory.lanes, 1, size, device=memory.device)
        self.deviation = torch.ones_like(self.mean)
        actions = 1 if memory.discrete else memory.arena.columns["action"].flatten(1).shape[1]
        self.action_deviation = torch.ones(memory.lanes, 1, actions, device=memory.device)

    def fit(self, draft: Draft, lanes: Tensor) -> None:
        """Take mean and deviation from everything stored, in the lanes bool[L]."""
        here = lanes[:, None, None]
        every = torch.arange(draft.slots, device=draft.phase.device).expand(self.memory.lanes, -1)
        mean, deviation = neighbours.moments(self._raw("obs", every), draft.occupied)
        self.mean, self.deviation = torch.where(here, mean, self.mean), torch.where(here, deviation, self.deviation)
        if not self.memory.discrete:
            action = draft.fields["action"].flatten(2).to(torch.float32)
            deviation = neighbours.moments(action, draft.occupied)[1]
            self.action_deviation = torch.where(here, deviation, self.action_deviation)

    def off(self, draft: Draft) -> Tensor:
        """bool[L]: whether what is stored has moved by MOVED deviations, or spread or shrunk by as much, on average
        over the coordinates; from SAMPLED slots, evenly over those of each lane.
        """
        width = draft.width.to(draft.phase.device)[:, None]
        slots = torch.arange(SAMPLED, device=width.device) * -(-width // SAMPLED)
        real = slots < width
        slots = torch.where(real, slots, 0)
        mean, deviation = neighbours.moments(self._raw("obs", slots), draft.occupied.gather(1, slots) & real)
        moved = ((mean - self.mean).abs() / self.deviation).mean((1, 2))
        spread = (deviation / self.deviation).log().abs().mean((1, 2))
        return (moved > MOVED) | (spread > MOVED)

    def take(self, slots: Tensor, real: Tensor) -> None:
        """Copy the features of slots int64[L, M], where copies are kept."""
        if self.copies and slots.shape[1]:
            fields = self.memory.arena.unpack(self.memory.arena.read(slots))
            lane = real.nonzero()[:, 0]
            for role, copy in self.copies.items():
                copy[lane, slots[real]] = self.memory.features(fields[role])[real]

    def _raw(self, role: str, slots: Tensor) -> Tensor:
        lane = torch.arange(len(slots), device=slots.device)[:, None].expand_as(slots)
        return self._gathered(role, lane.reshape(-1), slots.reshape(-1)).view(*slots.shape, self.size)

    def _gathered(self, role: str, lane: Tensor, slot: Tensor) -> Tensor:
        """float32[P, D] as stored."""
        if self.copies:
            return self.copies[role].flatten(0, 1).index_select(0, lane * self.memory.capacity + slot)
        column = self.memory.arena.columns[role]
        return column.index_select(0, self.memory.arena.position(lane, slot)).flatten(1).to(torch.float32)

    def vectors(self, role: str, slots: Tensor) -> Tensor:
        """float32[L, M, D] of slots int64[L, M], standardised."""
        return (self._raw(role, slots) - self.mean) / self.deviation

    def of_lane(self, role: str, lane: int, slots: Tensor) -> Tensor:
        """float32[P, D] of slots int64[P] of one lane, standardised."""
        return (self._gathered(role, torch.full_like(slots, lane), slots) - self.mean[lane]) / self.deviation[lane]

    def space(self, role: str, lane: int) -> tuple[Any, Any, Any]:
        """NumPy views of one lane, on CPU: (successor) states [N, D], states [N, D], and 1/deviations float32[D]."""
        scale = (1 / self.deviation[lane, 0]).numpy()
        if self.copies:
            points, states = (self.copies[name][lane].numpy() for name in (role, "obs"))
            return points, states, scale
        arena = self.memory.arena
        first = int(arena.position(torch.tensor(lane), torch.tensor(0)))
        rows = slice(first, first + self.memory.capacity)
        points, states = (arena.columns[name].flatten(1)[rows].numpy() for name in (role, "obs"))
        return points, states, scale

    def apart(self, role: str, lane: Tensor, one: Tensor, other: Tensor, raw: bool = False) -> Tensor:
        """float32[P, T]: distance of the state (or successor state) of slot one [P] to the states of other [P, T]."""
        theirs = self._gathered("obs", lane.repeat_interleave(other.shape[1]), other.reshape(-1))
        gap = theirs.view(*other.shape, self.size) - self._gathered(role, lane, one)[:, None]
        return (gap if raw else gap / self.deviation[lane]).square_().sum(-1).sqrt_()

    def actions_apart(self, lane: Tensor, one: Tensor, other: Tensor, raw: bool) -> Tensor:
        """float32[P, T]: distance of box actions."""
        arena = self.memory.arena
        column = arena.columns["action"]
        mine = column.index_select(0, arena.position(lane, one)).flatten(1).to(torch.float32)
        at = arena.position(lane.repeat_interleave(other.shape[1]), other.reshape(-1))
        gap = column.index_select(0, at).view(*other.shape, mine.shape[1]).to(torch.float32) - mine[:, None]
        return (gap if raw else gap / self.action_deviation[lane]).square_().sum(-1).sqrt_()

    def column(self, name: str, lane: Tensor, slot: Tensor) -> Tensor:
        """A column of the arena, such as reward, for pairs of any one shape."""
        at = self.memory.arena.position(lane.expand(slot.shape).reshape(-1), slot.reshape(-1))
        return self.memory.arena.columns[name].index_select(0, at).view(slot.shape)

    def actions(self, lane: Tensor, slots: Tensor) -> Tensor:
        """float32[L, M, A] of the actions of slots int64[L, M]; a discrete one is a single code."""
        at = self.memory.arena.position(lane.reshape(-1), slots.reshape(-1))
        return self.memory.arena.columns["action"].index_select(0, at).view(*slots.shape, -1).to(torch.float32)

    @property
    def nbytes(self) -> int:
        return sum(copy.nbytes for copy in self.copies.values())
