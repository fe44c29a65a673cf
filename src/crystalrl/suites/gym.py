"""Suites of Gymnasium environments: tasks may differ in physics, in size, and in what their score means."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from crystalrl.kernels import mix_int
from crystalrl.random import Stream
from crystalrl.suites.base import Policy, Shape
from crystalrl.suites.workers import Incident, Pool
from crystalrl.types import Transition


@dataclass(frozen=True)
class Task:
    """One environment. The score of an episode is (return − low) / (high − low), or 1 for a success."""

    name: str
    make: str
    """A name that Gymnasium knows, `minatar:GAME`, or `module:function`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments with which it is made."""
    physics: Mapping[str, float] = field(default_factory=dict)
    """Attributes to set in it."""
    flip: bool = False
    """Whether actions mean their mirror image."""
    low: float = 0.0
    high: float = 1.0
    success: bool = False
    """Score whether `info` told of a success, not the return."""


@dataclass(frozen=True)
class Sizes:
    """What all tasks of a suite fit in: smaller observations are filled with zeros, of more actions than a task has the
    surplus means the first ones again, of a larger box the surplus means nothing, and where a task counts actions,
    equal pieces of a box's first number stand for them.
    """

    obs: Shape
    action: int | Shape
    obs_dtype: torch.dtype = torch.float32


class GymSuite:
    """Stages through Gymnasium. `stages[l][k]` is the task of lane l in stage k; ids[k] its id.

    The id is visible as a context; with vectors as observations also as a one-hot code behind them. Environments step
    in this process, or in as many processes as CRYSTALRL_WORKERS says; results are the same.
    """

    capturable = False

    def __init__(
        self,
        stages: Sequence[Sequence[Task]],
        sizes: Sizes,
        seeds: Sequence[int],
        device: torch.device | str = "cpu",
        visible: bool = True,
        workers: int | None = None,
    ) -> None:
        self.stages, self.sizes, self.seeds, self.device = stages, sizes, list(seeds), torch.device(device)
        self.tasks = tuple(range(len(stages[0])))
        self.context = visible and len(self.tasks) > 1
        self.coded = self.context and len(sizes.obs) == 1
        self.obs = (sizes.obs[0] + len(self.tasks),) if self.coded else sizes.obs
        self.action, self.obs_dtype = sizes.action, sizes.obs_dtype
        self.workers = int(os.environ.get("CRYSTALRL_WORKERS", "0")) if workers is None else workers

    def world(self, envs: int) -> GymWorld:
        """Environments for learning."""
        return GymWorld(self, envs, Stream.ENVIRONMENT)

    def scorer(self, episodes: int) -> GymScorer:
        """Test episodes."""
        return GymScorer(self, episodes)


class GymWorld:
    """E environments per lane. Invariant: `obs` is what they show now; `history` the actions of their episodes."""

    def __init__(self, suite: GymSuite, envs: int, stream: Stream) -> None:
        self.suite, self.envs, self.stream, self.lanes = suite, envs, stream, len(suite.seeds)
        sizes = suite.sizes
        kind = str(sizes.obs_dtype).removeprefix("torch.")
        action: tuple[Shape, str] = ((), "int64") if isinstance(sizes.action, int) else (sizes.action, "float32")
        arrays = [("shown", sizes.obs, kind), ("after", sizes.obs, kind), ("action", *action)]
        self.pool = Pool(self.lanes, envs, arrays, suite.workers)
        self.stage = torch.zeros(self.lanes, envs, dtype=torch.int64)
        self.obs = torch.zeros(self.lanes, envs, *suite.obs, dtype=sizes.obs_dtype, device=suite.device)
        self.history: list[list[Any]] = [[] for _ in range(self.lanes * envs)]

    @property
    def context(self) -> Tensor | None:
        """Task ids int32[L, E], unless they are hidden."""
        return self.stage.to(self.suite.device, torch.int32) if self.suite.context else None

    @property
    def incidents(self) -> list[Incident]:
        """What went wrong so far."""
        return self.pool.incidents

    def begin(self, stage: Tensor) -> None:
        """Start every environment anew in stage int64[L] (all environments of a lane) or int64[L, E]."""
        self.stage.copy_(stage if stage.dim() == 2 else stage[:, None].expand_as(self.stage))
        self.pool.arrays["idle"][:] = False
        self.pool.begin([self._order(row) for row in range(self.lanes * self.envs)])
        self.history = [[] for _ in self.history]
        self.obs.copy_(self._seen("shown"))

    def _order(self, row: int, episode: int = 0, actions: Sequence[Any] = ()) -> dict[str, Any]:
        lane, env = divmod(row, self.envs)
        stage = int(self.stage[lane, env])
        number = self.suite.seeds[lane] * 1_000_003 + 97 * self.stream + env + 1_000_000_007 * stage
        task = vars(self.suite.stages[lane][stage])
        return {"row": row, "task": task, "seed": mix_int(number) >> 1, "episode": episode, "actions": list(actions)}

    def step(self, action: Tensor) -> Transition:
        """Take actions int64[L, E] or float[L, E, A]; finished episodes start anew."""
        before, arrays = self.obs.clone(), self.pool.arrays
        given = action.to("cpu").flatten(0, 1).numpy()
        arrays["action"][...] = given
        self.pool.step()
        after = self._seen("after")
        self.obs.copy_(self._seen("shown"))
        reward, terminated, truncated = (self._of(name) for name in ("reward", "terminated", "truncated"))
        for row, (past, ended) in enumerate(zip(self.history, arrays["terminated"] | arrays["truncated"], strict=True)):
            past.append(given[row].tolist())
            if ended:
                past.clear()
        return Transition(before, action, reward, after, terminated, truncated, self.context)

    def _of(self, name: str) -> Tensor:
        """[L, E, …] of a shared array, copied."""
        rows = self.pool.arrays[name]
        whole = torch.from_numpy(rows.reshape(self.lanes, self.envs, *rows.shape[1:]))
        return whole.to(self.suite.device, copy=True)

    def _seen(self, name: str) -> Tensor:
        """Observations [L, E, …], with the task's code where it is shown."""
        raw = self._of(name)
        if not self.suite.coded:
            return raw
        code = torch.nn.functional.one_hot(self.stage, len(self.suite.tasks)).to(raw)
        return torch.cat([raw, code], dim=-1)

    def state_dict(self) -> dict[str, Tensor]:
        """Stage, number of the episode and its actions so far, which together lead back to where it is."""
        longest = max(map(len, self.history))
        width = self.pool.arrays["action"].shape[1:]
        actions = torch.zeros(len(self.history), longest, *width, dtype=torch.float64)
        for row, past in enumerate(self.history):
            if past:
                actions[row, : len(past)] = torch.tensor(past, dtype=torch.float64)
        length = torch.tensor([len(past) for past in self.history])
        episode = torch.from_numpy(self.pool.arrays["episode"].copy())
        return {"stage": self.stage.clone(), "episode": episode, "length": length, "actions": actions}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go to where a world of the same suite was, by playing its episodes again."""
        self.stage.copy_(state["stage"])
        kind = self.pool.arrays["action"].dtype
        self.history = [
            actions[:length].numpy().astype(kind).tolist()
            for actions, length in zip(state["actions"], state["length"].tolist(), strict=True)
        ]
        self.pool.arrays["idle"][:] = False
        episodes = state["episode"].tolist()
        self.pool.begin([self._order(row, episodes[row], past) for row, past in enumerate(self.history)])
        self.obs.copy_(self._seen("shown"))


class GymScorer:
    """Mean score of test episodes that start the same at every call, one stage after the other."""

    def __init__(self, suite: GymSuite, episodes: int) -> None:
        self.suite, self.world = suite, GymWorld(suite, episodes, Stream.EVALUATE)

    @property
    def incidents(self) -> list[Incident]:
        """What went wrong so far; an episode that was cut off counts with what it had."""
        return self.world.incidents

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """float64[L, M] of stages int64[L, M]."""
        return torch.stack([self._play(policy, column) for column in stage.cpu().unbind(1)], dim=1)

    def _play(self, policy: Policy, stage: Tensor) -> Tensor:
        world, arrays = self.world, self.world.pool.arrays
        world.begin(stage)
        total = torch.zeros(world.lanes, world.envs, dtype=torch.float64)
        running, succeeded = torch.ones_like(total, dtype=torch.bool), torch.zeros_like(total, dtype=torch.bool)
        while bool(running.any()):
            step = world.step(policy(world.obs, world.context))
            total += torch.as_tensor(step.reward).cpu() * running
            succeeded |= world._of("success").cpu() & running
            running &= ~(torch.as_tensor(step.terminated) | torch.as_tensor(step.truncated)).cpu()
            arrays["idle"][:] = ~running.flatten().numpy()
        tasks = [self.suite.stages[lane][int(k)] for lane, k in enumerate(stage)]
        low, high = (torch.tensor([getattr(task, end) for task in tasks])[:, None] for end in ("low", "high"))
        success = torch.tensor([task.success for task in tasks])[:, None]
        return torch.where(success, succeeded.double(), (total - low) / (high - low)).mean(-1)
