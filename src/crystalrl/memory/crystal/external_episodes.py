"""Unfinished episodes of experiences that another library stores, for the boost by their returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from crystalrl.memory.storage.header import CheckpointError

PREFIX = "crystal.running."


@dataclass
class Running:
    """One unfinished episode: steps and discounted return so far, slot and number of its experiences."""

    steps: int = 0
    total: float = 0.0
    members: list[tuple[int, int]] = field(default_factory=list)


class ExternalEpisodes:
    """The unfinished episode of every environment, by the environment's number.

    Invariant: there are at most `limit` episodes, with at most 2 · `limit` listed experiences each: the oldest ones are
    no longer in a memory of `limit` slots.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running: dict[int, Running] = {}

    def add(self, env: int, slot: int, number: int, reward: float, gamma: float) -> None:
        """Add the next step of an environment's episode: slot and number of the experience, and its reward."""
        now = self.running.setdefault(env, Running())
        now.total += gamma**now.steps * reward
        now.steps += 1
        now.members.append((slot, number))
        if len(now.members) > 2 * self.limit:
            del now.members[: self.limit]
        if len(self.running) > self.limit:
            del self.running[next(iter(self.running))]

    def end(self, env: int) -> Running:
        """The episode of an environment, which has ended."""
        return self.running.pop(env)

    def state(self) -> dict[str, Tensor]:
        """All unfinished episodes, as tensors."""
        members = [(env, *member) for env, now in self.running.items() for member in now.members]
        steps = [(env, now.steps) for env, now in self.running.items()]
        totals = [now.total for now in self.running.values()]
        return {
            f"{PREFIX}steps": torch.tensor(steps, dtype=torch.int64, device="cpu").view(-1, 2),
            f"{PREFIX}total": torch.tensor(totals, dtype=torch.float64, device="cpu"),
            f"{PREFIX}members": torch.tensor(members, dtype=torch.int64, device="cpu").view(-1, 3),
        }

    def refuse_impossible(self, state: Mapping[str, Tensor]) -> None:
        """Raise CheckpointError if the episodes in `state` cannot have been saved by a memory of this size."""
        given = {name.removeprefix(PREFIX): tensor for name, tensor in state.items() if name.startswith(PREFIX)}
        if not given:
            return
        if set(given) != {"steps", "total", "members"}:
            raise CheckpointError(f"running episodes: wanted steps, total and members, got {sorted(given)}")
        steps, total, members = (given[name] for name in ("steps", "total", "members"))
        kinds = steps.dtype == members.dtype == torch.int64 and total.dtype == torch.float64
        if not kinds or steps.shape != (len(total), 2) or members.dim() != 2 or members.shape[1] != 3:
            raise CheckpointError("running episodes: wanted tables of steps, totals and members, got others")
        inside = (members[:, 1] >= 0) & (members[:, 1] < self.limit) & torch.isin(members[:, 0], steps[:, 0])
        if not bool(inside.all() & total.isfinite().all() & (steps[:, 1] >= 0).all()):
            raise CheckpointError("running episodes: wanted slots of the memory and finite returns, got others")

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`; from nothing, if it has no episodes."""
        self.running.clear()
        given = {name.removeprefix(PREFIX): tensor for name, tensor in state.items() if name.startswith(PREFIX)}
        if not given:
            return
        for (env, steps), total in zip(given["steps"].tolist(), given["total"].tolist(), strict=True):
            self.running[env] = Running(steps, total)
        for env, slot, number in given["members"].tolist():
            self.running[env].members.append((slot, number))
