"""Neighbour lists that are kept between consolidations and updated for the experiences that came and went.

A list holds slots int32[L, N, K], −1 for none, existing ones first. Every experience has one list of the states nearest
to its successor state and, where an interference rule needs it, one of the similar experiences within ε. Lists change
in three ways: removed experiences are taken out; a new experience finds its own neighbours and is offered to the lists
that name these neighbours; and some lists, in turn or because they have lost many entries, are renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import ClassVar

import torch
from torch import Tensor

from crystalrl.memory.neighbours.contradiction import NeighbourClass

Distance = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(lane int64[P], slot int64[P], others int64[P, T]) → distances float32[P, T]; infinite: never listed."""


class Lists:
    """Lists of K slots. Invariant: no list names its own slot, an empty slot or a slot twice; −1 only at its end."""

    at_once: ClassVar[dict[str, int]] = {"cpu": 1 << 17, "cuda": 1 << 21}
    """Pairs whose distances are computed, or lists that are scanned, at once."""
    per_member: ClassVar[int] = 8
    """Maximum number of new experiences offered to a list because of one of its members."""

    def __init__(self, lanes: int, slots: int, k: int, device: torch.device, loops: ModuleType | None = None) -> None:
        self.slots, self.chunk, self._loops = slots, self.at_once[device.type], loops
        self.index = torch.full((lanes, slots, k), -1, dtype=torch.int32, device=device)
        self._flat = self.index.view(lanes * slots, k)

    @property
    def k(self) -> int:
        return self.index.shape[-1]

    @property
    def nbytes(self) -> int:
        return self.index.nbytes

    def remove(self, removed: Tensor, width: int) -> None:
        """Take the removed slots, bool[L, W], and those beyond W out of all lists and clear their own lists."""
        if self._loops is not None:
            for lists, mine in zip(self.index.numpy(), removed.numpy(), strict=True):
                self._loops.remove(lists[:width], mine)
            self.index[:, width:] = -1
            return
        self.index[:, :width].masked_fill_(removed[..., None], -1)
        self.index[:, width:] = -1
        for part, names in self._parts(width):
            dead = removed.flatten().index_select(0, names).view(part.shape) & (part >= 0) | (part >= width)
            rows = dead.any(-1).nonzero()[:, 0]
            left = part[rows].masked_fill(dead[rows], -1)
            part[rows] = left.gather(1, (left < 0).to(torch.uint8).argsort(dim=1, stable=True))

    def _parts(self, width: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists [R, K] of all lanes, in parts, and their entries as positions [R·K] in a flat [L, W] (−1: any)."""
        lanes = len(self.index)
        rows = self._flat[:width] if lanes == 1 else self._flat
        for start in range(0, len(rows), self.chunk):
            part = rows[start : start + self.chunk]
            names = part.clamp(0, width - 1)
            if lanes > 1:
                lane = torch.arange(start, start + len(part), device=part.device) // self.slots
                names = names + (lane * width)[:, None]
            yield part, names.flatten()

    def lengths(self, width: int) -> Tensor:
        """int64[L, W]: slots in each list."""
        return (self.index[:, :width] >= 0).sum(-1)

    def offer(
        self,
        lane: Tensor,
        slot: Tensor,
        candidates: Tensor,
        distance: Distance,
        classify: NeighbourClass | None = None,
    ) -> None:
        """Let the lists of (lane, slot) [P] keep the nearest of what they hold and the candidates int64[P, T] (−1:
        none). With `classify`, both classes share the places of a list."""
        if not len(slot):
            return
        rows = max(1, self.chunk // (candidates.shape[1] + self.k))
        for mine in torch.arange(len(slot), device=slot.device).split(rows):
            self._choose(lane[mine], slot[mine], candidates[mine], distance, classify)

    def _choose(
        self, lane: Tensor, slot: Tensor, candidates: Tensor, distance: Distance, classify: NeighbourClass | None
    ) -> None:
        place = lane * self.slots + slot
        others = torch.cat([self._flat[place].to(torch.int64), candidates], -1).sort(-1).values
        wrong = (others < 0) | (others == slot[:, None])
        wrong[:, 1:] |= others[:, 1:] == others[:, :-1]
        key = distance(lane, slot, others.clamp_min(0)).masked_fill(wrong, torch.inf)
        if classify is not None:
            key = _rank_within_class(key, classify(lane, slot, others.clamp_min(0)))
        least, order = key.topk(self.k, dim=-1, largest=False)
        self._flat[place] = torch.where(torch.isfinite(least), others.gather(1, order), -1).to(torch.int32)

    def reverse_neighbours(
        self, lane: Tensor, slot: Tensor, near: Tensor, width: int
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The lists that name a neighbour of new experiences (lane, slot) [P] with neighbours near int64[P, T].

        Yields lane and slot of such a list and slot of the new experience, int64[Q] each, without repetition.
        """
        member = (lane[:, None] * width + near)[near >= 0]
        number = torch.arange(len(slot), device=slot.device)[:, None].expand_as(near)[near >= 0]
        member, order = member.sort(stable=True)
        number = number[order]
        known, count = torch.unique_consecutive(member, return_counts=True)
        first = count.cumsum(0) - count
        table = torch.full((len(self.index) * width,), -1, dtype=torch.int32, device=slot.device)
        table[known] = torch.arange(len(known), dtype=torch.int32, device=slot.device)
        start = 0
        for part, names in self._parts(width):
            group = table.index_select(0, names).view(part.shape).masked_fill(part < 0, -1)
            row, column = (group >= 0).nonzero(as_tuple=True)
            found = group[row, column].to(torch.int64)
            many = count[found].clamp_max(self.per_member)
            row, found = row.repeat_interleave(many), found.repeat_interleave(many)
            turn = torch.arange(len(row), device=row.device) - (many.cumsum(0) - many).repeat_interleave(many)
            pair = torch.unique(row * len(slot) + number[first[found] + turn])
            place, new = start + pair // len(slot), pair % len(slot)
            yield place // self.slots, place % self.slots, slot[new]
            start += len(part)


def _rank_within_class(distance: Tensor, member: Tensor) -> Tensor:
    """Rank [P, T] of each distance among those of the same class (member bool[P, T], or not); infinite ones stay so.

    Sorted by this key, both classes get the same number of places as long as there are enough of each.
    """
    key = torch.full_like(distance, torch.inf)
    for mine in (member, ~member):
        rank = distance.masked_fill(~mine, torch.inf).argsort(dim=-1, stable=True).argsort(dim=-1).to(distance.dtype)
        key = torch.where(mine & torch.isfinite(distance), rank, key)
    return key


def grouped(owner: Tensor, candidate: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Unique owners [P] of pairs (owner, candidate) [Q] sorted by owner, and up to `most` candidates [P, most] of each,
    −1 for none."""
    known, count = torch.unique_consecutive(owner, return_counts=True)
    turn = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count).repeat_interleave(count)
    row = torch.arange(len(known), device=owner.device).repeat_interleave(count)
    candidates = torch.full((len(known), most), -1, dtype=torch.int64, device=owner.device)
    kept = turn < most
    candidates[row[kept], turn[kept]] = candidate[kept]
    return known, candidates
