"""Neighbour lists that are kept between consolidations and mended for what came and went.

A list holds slots int32[L, N, K], −1 for none, those that are there first. Every experience has one list of the states
nearest to its successor state and, where a rule of interference asks, one of the experiences like it within ε. Lists
change in three ways: what is gone is taken out; what is new asks the index for its own neighbours and is offered to the
lists in which these neighbours stand; and some lists in turn, and those that have lost most, ask the index anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from crystalrl.backends import backend_for

AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 21}
"""Pairs whose distances are computed, or lists that are looked through, at once."""
PER_MEMBER = 8
"""New experiences offered at most to one list by one of its members."""

Apart = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(lane int64[P], slot int64[P], others int64[P, T]) → distances float32[P, T]; infinite: not to be listed."""
Kin = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The same → bool[P, T]: to which of two kinds the others belong; a list shares its places between both."""


class Lists:
    """Lists of K slots. Invariant: no list names itself, an empty slot or a slot twice; −1 only at its end."""

    def __init__(self, lanes: int, slots: int, k: int, device: torch.device) -> None:
        self.slots, self.at_once = slots, AT_ONCE[device.type]
        self.index = torch.full((lanes, slots, k), -1, dtype=torch.int32, device=device)
        self._flat = self.index.view(lanes * slots, k)

    @property
    def k(self) -> int:
        return self.index.shape[-1]

    @property
    def nbytes(self) -> int:
        return self.index.nbytes

    def forget(self, gone: Tensor, width: int) -> None:
        """Take out the slots that are gone, bool[L, W], and clear their own lists."""
        loops = backend_for(gone.device).graph
        if loops is not None:
            for lists, mine in zip(self.index.numpy(), gone.numpy(), strict=True):
                loops.forget(lists[:width], mine)
            self.index[:, width:] = -1
            return
        self.index[:, :width].masked_fill_(gone[..., None], -1)
        self.index[:, width:] = -1
        for part, names in self._parts(width):
            dead = gone.flatten().index_select(0, names).view(part.shape) & (part >= 0)
            rows = dead.any(-1).nonzero()[:, 0]
            left = part[rows].masked_fill(dead[rows], -1)
            part[rows] = left.gather(1, (left < 0).to(torch.uint8).argsort(dim=1, stable=True))

    def _parts(self, width: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Lists [R, K] of all lanes, in parts, and their entries as places [R·K] in a flat [L, W]; −1 becomes any."""
        lanes = len(self.index)
        rows = self._flat[:width] if lanes == 1 else self._flat
        for start in range(0, len(rows), self.at_once):
            part = rows[start : start + self.at_once]
            names = part.clamp_min(0)
            if lanes > 1:
                lane = torch.arange(start, start + len(part), device=part.device) // self.slots
                names = names + (lane * width)[:, None]
            yield part, names.flatten()

    def lengths(self, width: int) -> Tensor:
        """int64[L, W]: slots in each list."""
        return (self.index[:, :width] >= 0).sum(-1)

    def offer(self, lane: Tensor, slot: Tensor, guests: Tensor, apart: Apart, kin: Kin | None = None) -> None:
        """Let the lists of (lane, slot) [P] choose the nearest from what they hold and their guests int64[P, T]."""
        if not len(slot):
            return
        rows = max(1, self.at_once // (guests.shape[1] + self.k))
        for mine in torch.arange(len(slot), device=slot.device).split(rows):
            self._choose(lane[mine], slot[mine], guests[mine], apart, kin)

    def _choose(self, lane: Tensor, slot: Tensor, guests: Tensor, apart: Apart, kin: Kin | None) -> None:
        place = lane * self.slots + slot
        others = torch.cat([self._flat[place].to(torch.int64), guests], -1).sort(-1).values
        wrong = (others < 0) | (others == slot[:, None])
        wrong[:, 1:] |= others[:, 1:] == others[:, :-1]
        far = apart(lane, slot, others.clamp_min(0)).masked_fill(wrong, torch.inf)
        if kin is None:
            near, order = far.topk(self.k, dim=-1, largest=False)
        else:
            near, order = _shared(far, kin(lane, slot, others.clamp_min(0))).topk(self.k, dim=-1, largest=False)
        self._flat[place] = torch.where(torch.isfinite(near), others.gather(1, order), -1).to(torch.int32)

    def hosts(self, lane: Tensor, slot: Tensor, near: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For newcomers (lane, slot) [P] with neighbours near int64[P, T]: the lists in which these neighbours stand.

        Yields lane, slot of the list and slot of the newcomer, int64[Q] each, without repetition.
        """
        member = (lane[:, None] * width + near)[near >= 0]
        guest = torch.arange(len(slot), device=slot.device)[:, None].expand_as(near)[near >= 0]
        member, order = member.sort(stable=True)
        guest = guest[order]
        known, count = torch.unique_consecutive(member, return_counts=True)
        first = count.cumsum(0) - count
        table = torch.full((len(self.index) * width,), -1, dtype=torch.int32, device=slot.device)
        table[known] = torch.arange(len(known), dtype=torch.int32, device=slot.device)
        start = 0
        for part, names in self._parts(width):
            group = table.index_select(0, names).view(part.shape).masked_fill(part < 0, -1)
            host, column = (group >= 0).nonzero(as_tuple=True)
            found = group[host, column].to(torch.int64)
            many = count[found].clamp_max(PER_MEMBER)
            host, found = host.repeat_interleave(many), found.repeat_interleave(many)
            turn = torch.arange(len(host), device=host.device) - (many.cumsum(0) - many).repeat_interleave(many)
            pair = torch.unique(host * len(slot) + guest[first[found] + turn])
            place, who = start + pair // len(slot), pair % len(slot)
            yield place // self.slots, place % self.slots, slot[who]
            start += len(part)


def _shared(far: Tensor, kind: Tensor) -> Tensor:
    """Sort keys [P, T] by which both kinds get as many places as long as there are enough of them."""
    key = torch.full_like(far, torch.inf)
    for mine in (kind, ~kind):
        rank = far.masked_fill(~mine, torch.inf).argsort(dim=-1, stable=True).argsort(dim=-1).to(far.dtype)
        key = torch.where(mine & torch.isfinite(far), rank, key)
    return key


def grouped(host: Tensor, guest: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Unique hosts [P] of sorted pairs (host, guest) [Q], and up to `most` guests [P, most] of each, −1 for none."""
    known, count = torch.unique_consecutive(host, return_counts=True)
    turn = torch.arange(len(host), device=host.device) - (count.cumsum(0) - count).repeat_interleave(count)
    row = torch.arange(len(known), device=host.device).repeat_interleave(count)
    guests = torch.full((len(known), most), -1, dtype=torch.int64, device=host.device)
    kept = turn < most
    guests[row[kept], turn[kept]] = guest[kept]
    return known, guests
