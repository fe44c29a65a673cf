"""Differentiable neural dictionaries (Pritzel et al. 2017): keys and values for every lane and action.

A read at h gives Σ_i w_i·v_i over the p nearest keys, with weights w ∝ 1 / (‖h − h_i‖² + δ); it is differentiable in h,
keys and values. A write updates the value of the same key, or appends a key; a full dictionary replaces the key that
was read longest ago.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Dictionaries:
    """Invariant: of action a, the first `count[l, a]` of `keys` [L, A, M, K] and `values` [L, A, M] are in use;
    `read_at` int64[L, A, M] is the time at which each was last read or written."""

    def __init__(
        self, shape: tuple[int, int, int], key: int, neighbours: int, delta: float, device: torch.device
    ) -> None:
        self.entries, self.neighbours, self.delta = shape[2], min(neighbours, shape[2]), delta
        self.keys = torch.zeros(*shape, key, device=device).requires_grad_()
        self.values = torch.zeros(shape, device=device).requires_grad_()
        self.read_at = torch.zeros(shape, dtype=torch.int64, device=device)
        self.count = torch.zeros(shape[:2], dtype=torch.int64, device=device)

    def read(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Values [L, B, A] at h [L, B, K], 0 without keys; and the keys they come from, int64[L, A, B, p]."""
        near = self._nearest(h.detach())
        index = near.flatten(2)
        keys = self.keys.gather(2, index[..., None].expand(-1, -1, -1, h.shape[-1])).unflatten(2, near.shape[2:])
        distance = (h[:, None, :, None] - keys).square().sum(-1)
        used = near < self.count[..., None, None]
        weight = used / (distance + self.delta)
        values = self.values.gather(2, index).view_as(distance)
        return ((weight * values).sum(-1) / weight.sum(-1).clamp_min(1e-30)).transpose(1, 2), near

    @torch.no_grad()
    def _nearest(self, h: Tensor) -> Tensor:
        cross = h[:, None] @ self.keys.transpose(2, 3)
        distance = self.keys.square().sum(-1)[:, :, None] - 2 * cross
        free = torch.arange(self.entries, device=h.device) >= self.count[..., None]
        distance = distance.masked_fill(free[:, :, None], torch.inf)
        return distance.topk(self.neighbours, dim=-1, largest=False).indices

    def mark_read(self, near: Tensor, time: Tensor) -> None:
        """Note that keys int64[L, A, B, p] were read at a time."""
        self.read_at.scatter_(2, near.flatten(2), time.expand_as(near).flatten(2))

    @torch.no_grad()
    def write(self, h: Tensor, action: Tensor, value: Tensor, valid: Tensor, time: Tensor, rate: float) -> None:
        """Write one entry per lane where `valid` bool[L]: key h [L, K], action int64[L], value [L]; the value of the
        same key moves by `rate`."""
        lane = torch.arange(len(h), device=h.device)
        keys, count, used = self.keys[lane, action], self.count[lane, action], self.read_at[lane, action]
        free = torch.arange(self.entries, device=h.device) >= count[:, None]
        distance = (keys - h[:, None]).square().sum(-1).masked_fill(free, torch.inf)
        same, room = distance.amin(-1) == 0, count < self.entries
        at = torch.where(same, distance.argmin(-1), torch.where(room, count, used.argmin(-1)))
        old = self.values[lane, action, at]
        new = torch.where(same, old + rate * (value - old), value)
        self.values[lane, action, at] = torch.where(valid, new, old)
        self.keys[lane, action, at] = torch.where(valid[:, None], h, keys[lane, at])
        self.read_at[lane, action, at] = torch.where(valid, time, used[lane, at])
        self.count[lane, action] = count + (valid & ~same & room).to(torch.int64)

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        return {"keys": self.keys, "values": self.values, "read_at": self.read_at, "count": self.count}
