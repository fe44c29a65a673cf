"""The returns of episodes, by the arrival numbers of their experiences: for the first lane of every cell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.study.plan import Group
from crystalrl.types import Transition


class EpisodeReturns:
    """Sums of the rewards of episodes [F, E] of F lanes, as their memory received them, undiscounted.

    Invariant: `at` counts the steps since the last `flush`, `total` holds the rewards of the unfinished episodes so
    far (NaN: not known since the episode began). All change in place, so that a CUDA graph can record `step`. There is
    room for the steps of a task; a trainer on CUDA that is stepped further, to measure its speed, overwrites the last.
    """

    def __init__(self, group: Group, n_step: int, device: torch.device) -> None:
        self.first, self.envs, self.n_step = group.first_lanes, group.spec.envs, n_step
        self.lanes = torch.tensor(self.first, device=device)
        self.most = max(max(group.stage_steps) // self.envs, 1)
        shape = (len(self.first), self.envs)
        self.total = torch.zeros(shape, dtype=torch.float64, device=device)
        self.value = torch.zeros(self.most, *shape, device=device)
        self.over = torch.zeros(self.most, *shape, dtype=torch.bool, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.steps = 0
        """Steps of every environment before those that `at` counts."""
        self.ends = np.empty((0, 4), np.int64)
        """[M, 4]: step at which an episode ended, lane's place in `first`, environment, whether it was cut off by the
        start of a task."""
        self.returns = np.empty(0)
        """[M]; NaN: not known."""

    def step(self, transition: Transition) -> None:
        """Count one step of every environment, of lanes [L, E]."""
        if self.at.device.type == "cpu" and int(self.at) == self.most:
            self.flush()
        reward, terminated, truncated = (
            torch.as_tensor(value, device=self.at.device).index_select(0, self.lanes)
            for value in (transition.reward, transition.terminated, transition.truncated)
        )
        over, place = terminated.bool() | truncated.bool(), self.at.clamp(max=self.most - 1)
        self.total += reward
        self.value.index_copy_(0, place, self.total.to(torch.float32)[None])
        self.over.index_copy_(0, place, over[None])
        self.total.masked_fill_(over, 0.0)
        self.at += 1

    def cut(self) -> None:
        """All environments are put at the start of a task: unfinished episodes have no return."""
        self.flush()
        open_ = np.argwhere(np.ones(self.total.shape, bool))
        step = np.full((len(open_), 1), self.steps - 1)
        self._add(np.hstack([step, open_, np.ones_like(step)]), np.full(len(open_), np.nan))
        self.total.zero_()

    def flush(self) -> None:
        """Move the episodes that ended since the last flush to the list."""
        count = min(int(self.at), self.most)
        over, value = self.over[:count].cpu().numpy(), self.value[:count].cpu().numpy()
        step, lane, env = np.nonzero(over)
        self._add(np.stack([step + self.steps, lane, env, np.zeros_like(step)], axis=1), value[over])
        self.steps += int(self.at)
        self.at.zero_()

    def _add(self, ends: NDArray[np.int64], returns: NDArray[np.floating]) -> None:
        self.ends, self.returns = np.vstack([self.ends, ends]), np.concatenate([self.returns, returns])

    def of(self, lane: int, number: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return of the episode of each experience, by arrival numbers [n] in a lane; NaN: it has not ended."""
        self.flush()
        mine = self.ends[:, 1] == self.first.index(lane)
        ends, returns = self.ends[mine], np.append(self.returns[mine], np.nan)
        step, env = self._arrival(ends, number)
        order = np.lexsort((ends[:, 3], ends[:, 0], ends[:, 2]))  # at one step, the end of the episode before the cut
        keys, span = (ends[:, 2] * (self.steps + 1) + ends[:, 0])[order], env * (self.steps + 1)
        place = np.searchsorted(keys, span + step)
        known = place < len(keys)
        known[known] = keys[place[known]] <= span[known] + self.steps
        return np.where(known, returns[np.append(order, -1)[np.where(known, place, -1)]], np.nan).astype(np.float32)

    def _arrival(self, ends: NDArray[np.int64], number: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Step and environment of the experiences with these numbers. An n-step window arrives when it is closed."""
        if self.n_step == 1:
            return tuple(np.divmod(number, self.envs))
        step, env = (each.ravel() for each in np.indices((self.steps, self.envs)))
        closed = step + self.n_step - 1
        for e in range(self.envs):
            mine, last = env == e, np.sort(ends[(ends[:, 2] == e) & (ends[:, 3] == 0), 0])
            next_end = np.append(last, np.iinfo(np.int64).max)[np.searchsorted(last, step[mine])]
            closed[mine] = np.minimum(closed[mine], next_end)
        order = np.lexsort((step, env, closed))
        return step[order][number], env[order][number]

    def state(self) -> dict[str, Tensor]:
        """Everything so far, for a checkpoint."""
        self.flush()
        tensors = {"ends": torch.from_numpy(self.ends), "returns": torch.from_numpy(self.returns)}
        return {**tensors, "total": self.total.to("cpu", copy=True), "steps": torch.tensor(self.steps)}

    def load(self, state: Mapping[str, Tensor], steps: int) -> None:
        """Continue from `state` after this many steps; a state of an older version, without episodes, is empty."""
        self.at.zero_()
        if not state:
            self.steps = steps
            self.cut()
            self.total.fill_(torch.nan)
            return
        self.ends, self.returns = state["ends"].numpy().copy(), state["returns"].numpy().copy()
        self.total.copy_(state["total"])
        self.steps = int(state["steps"])
