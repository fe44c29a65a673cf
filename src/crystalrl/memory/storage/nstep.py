"""n-step returns, computed at insertion: a row waits until n rewards are summed or the episode ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.memory.storage.checks import Named, Problems, between, finite, row_problems
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED, Layout
from crystalrl.memory.storage.spec import StorageSpec


@dataclass(frozen=True)
class Windows:
    """Windows of each environment; see `NStep`."""

    rows: Tensor
    """int64[L, E, n, W]: first step of each window."""
    last: Tensor
    """int64[L, E, W]: latest step of each environment."""
    reward: Tensor
    """float64[L, E, n]: discounted sum of rewards."""
    length: Tensor
    """int64[L, E, n]: number of rewards in the sum; 0: a free window."""


@dataclass(frozen=True)
class Closed:
    """Windows that a step closes."""

    rows: Tensor
    """int64[L, E·n, W], oldest first within each environment."""
    real: Tensor
    """bool[L, E·n]: which rows are closed windows."""
    open: Windows
    """What stays open; `NStep.keep` it once the rows are stored."""


class NStep:
    """The unfinished windows of each environment.

    Invariant: window 0 is the oldest; `length[l, e, k]` rewards are summed in window k, and 0 marks a free one; between
    calls at most n − 1 windows of an environment are open.
    """

    def __init__(self, spec: StorageSpec, layout: Layout) -> None:
        device = torch.device(spec.device)
        self.layout, self.gamma, self.n = layout, spec.gamma, spec.n_step
        shape = (spec.lanes or 1, spec.envs, spec.n_step)
        self.rows = torch.zeros(*shape, layout.words, dtype=torch.int64, device=device)
        self.last = torch.zeros(*shape[:2], layout.words, dtype=torch.int64, device=device)
        self.reward = torch.zeros(*shape, dtype=torch.float64, device=device)
        self.length = torch.zeros(*shape, dtype=torch.int64, device=device)

    def push(self, rows: Tensor, valid: Tensor) -> Closed:
        """The windows that one-step rows int64[L, E, W] close, where valid bool[L, E]. Changes nothing: see `keep`."""
        columns = self.layout.torch_views(rows)
        place = (self.length > 0).sum(-1)
        here = valid[..., None] & (torch.arange(self.n, device=rows.device) == place[..., None])
        growing = valid[..., None] & ((self.length > 0) | here)
        step = self.gamma ** self.length.to(torch.float64) * columns["reward"].to(torch.float64)[..., None]
        reward = torch.where(growing, torch.where(here, 0.0, self.reward) + step, self.reward)
        if reward.device.type == "cpu" and not bool(torch.isfinite(reward.to(torch.float32)).all()):
            raise ValueError("reward: wanted rewards whose n-step sum is finite in float32, got a larger sum")
        first = torch.where(here[..., None], rows[:, :, None], self.rows)
        last = torch.where(valid[..., None], rows, self.last)
        windows = Windows(first, last, reward, self.length + growing)
        ended = valid & (columns["ending"] > 0)
        closing = growing & (ended[..., None] | (windows.length == self.n))
        return self._close(windows, closing, columns["ending"])

    def flush(self, ended: Tensor) -> Closed:
        """All windows of the environments bool[L, E], closed as truncated: they bootstrap from the last observation."""
        truncated = torch.full(ended.shape, TRUNCATED, dtype=torch.uint8, device=ended.device)
        windows = Windows(self.rows, self.last, self.reward, self.length)
        return self._close(windows, ended[..., None] & (self.length > 0), truncated)

    def keep(self, windows: Windows) -> None:
        """Replace the open windows."""
        for name, tensor in self.tensors().items():
            tensor.copy_(getattr(windows, name))

    def _close(self, windows: Windows, closing: Tensor, ending: Tensor) -> Closed:
        out = windows.rows.clone()
        columns, last = self.layout.torch_views(out), self.layout.torch_views(windows.last)
        for name, column in columns.items():
            if name.split(".")[0] == "next_obs":
                column.copy_(last[name].unsqueeze(2).expand_as(column))
        continues = ((ending & TERMINATED) == 0)[..., None]
        columns["reward"].copy_(windows.reward)
        columns["discount"].copy_(self.gamma ** windows.length.to(torch.float64) * continues)
        columns["ending"].copy_(ending[..., None].expand_as(closing))
        return Closed(out.flatten(1, 2), closing.flatten(1, 2), self._left(windows, closing))

    def _left(self, windows: Windows, closed: Tensor) -> Windows:
        """The windows that stay open, moved to the front. The closed ones are the oldest, so this shifts."""
        places = torch.arange(self.n, device=closed.device)
        source = places + closed.sum(-1, keepdim=True)
        kept = (source < self.n).to(torch.int64)
        source = source.clamp_max(self.n - 1)
        rows = windows.rows.gather(2, source[..., None].expand_as(windows.rows))
        reward, length = (tensor.gather(-1, source) * kept for tensor in (windows.reward, windows.length))
        return Windows(rows, windows.last, reward, length)

    def clear(self) -> None:
        self.length.zero_()  # in place: `tensors` returns live tensors

    def tensors(self) -> dict[str, Tensor]:
        return {"rows": self.rows, "last": self.last, "reward": self.reward, "length": self.length}

    def problems(self, state: Named, action: object) -> Problems:
        """What is wrong with a state, this one's or a stored one; see `row_problems`."""
        length = state["length"]
        yield from between("n-step lengths", length, 0, self.n - 1)
        if bool(((length[..., 1:] > 0) & (length[..., :-1] == 0)).any()):
            yield "n-step: wanted windows packed oldest first, got others"
        yield from finite("n-step rewards", state["reward"].to(torch.float32))
        for name in ("rows", "last"):
            yield from row_problems(self.layout, action, state[name])
