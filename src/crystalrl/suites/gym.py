"""Suites of Gymnasium environments. Tasks may differ in physics, sizes and the meaning of the score."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends.splitmix import mix_int
from crystalrl.random import Stream
from crystalrl.suites.base import Policy, Shape
from crystalrl.suites.goals import goal_space
from crystalrl.suites.process import worker_arrays
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Task
from crystalrl.suites.worker import Request
from crystalrl.suites.workers import Incident, Pool
from crystalrl.types import Transition

SENT = ("shown", "after", "reward", "terminated", "truncated")
"""Shared arrays that make up a transition."""


class GymSuite:
    """Stages through Gymnasium. `stages[l][k]` is the task of lane l in stage k; ids[k] its id, k itself
    if none are given.

    A visible task id is the context of transitions; vector observations also end with its one-hot code. Environments
    step in this process, or in CRYSTALRL_WORKERS worker processes; results are the same.
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
        ids: Sequence[int] | None = None,
    ) -> None:
        self.stages, self.sizes, self.seeds, self.device = stages, sizes, list(seeds), torch.device(device)
        self.tasks = tuple(range(len(stages[0])) if ids is None else ids)
        self.count = len(set(self.tasks))
        """Number of tasks; there are more stages if tasks are repeated."""
        self.context = visible and self.count > 1
        self.coded = self.context and len(sizes.obs) == 1
        self.obs = (sizes.obs[0] + self.count,) if self.coded else sizes.obs
        self.action, self.obs_dtype, self.stack = sizes.action, sizes.obs_dtype, sizes.stack
        known = self.context or self.count == 1
        self.goal_space = goal_space(stages[0], self.tasks, sizes.goal) if known else None
        self.lost: set[int] = set()
        """Lanes that have ended because an environment failed, while training or while scoring."""
        self.workers = int(os.environ.get("CRYSTALRL_WORKERS", "0")) if workers is None else workers

    def world(self, envs: int) -> GymWorld:
        """Environments for learning."""
        return GymWorld(self, envs, Stream.ENVIRONMENT)

    def evaluator(self, episodes: int) -> GymEvaluator:
        """Test episodes."""
        return GymEvaluator(self, episodes)


class GymWorld:
    """E environments per lane; the first `different` have their own seeds, which the others repeat.

    Invariant: `obs` is the current observation and `history` holds the actions of the current episodes. The tensors of
    a transition keep their storage; the next step overwrites them.
    """

    def __init__(self, suite: GymSuite, envs: int, stream: Stream, different: int | None = None) -> None:
        self.suite, self.envs, self.stream, self.lanes = suite, envs, stream, len(suite.seeds)
        self.different = different or envs
        sizes = suite.sizes
        kind = str(sizes.obs_dtype).removeprefix("torch.")
        action: tuple[Shape, str] = ((), "int64") if isinstance(sizes.action, int) else (sizes.action, "float32")
        arrays = [("shown", sizes.obs, kind), ("after", sizes.obs, kind), ("action", *action)]
        self.pool = Pool(self.lanes, envs, arrays, suite.workers, suite.lost)
        self.stage = torch.zeros(self.lanes, envs, dtype=torch.int64)
        ids = torch.zeros(self.lanes, envs, dtype=torch.int32, device=suite.device)
        self.context = ids if suite.context else None
        """Task ids int32[L, E]; None if they are hidden."""
        apart = ("action", *(name for name, *_ in worker_arrays(0)))
        self.host = {name: self._whole(name) for name in self.pool.arrays if name not in apart}
        """The shared arrays as tensors [L, E, …]."""
        self._sent = {name: _Sent(whole, suite.device) for name, whole in self.host.items() if name in SENT}
        self._ids = torch.tensor(suite.tasks)
        clips = torch.tensor([[task.clip or torch.inf for task in stages] for stages in suite.stages])
        self._clips = clips if bool(clips.isfinite().any()) else None
        """Largest reward [L, S] of every stage; None if there is no limit."""
        self._clip = torch.zeros(self.lanes, envs, device=suite.device)
        self._code = torch.zeros(self.lanes, envs, suite.count, dtype=sizes.obs_dtype, device=suite.device)
        self.obs, self._before, self._after = (
            torch.zeros(self.lanes, envs, *suite.obs, dtype=sizes.obs_dtype, device=suite.device) for _ in range(3)
        )
        self.history: list[list[Any]] = [[] for _ in range(self.lanes * envs)]

    @property
    def incidents(self) -> list[Incident]:
        """Failures so far."""
        return self.pool.incidents

    def reset(self, stage: Tensor) -> None:
        """Start new episodes in stage int64[L] (all environments of a lane) or int64[L, E]."""
        self._enter(stage if stage.dim() == 2 else stage[:, None].expand_as(self.stage))
        self.pool.begin([self._request(row) for row in range(self.lanes * self.envs)])
        self.history = [[] for _ in self.history]
        self._see("shown", self.obs)

    def _enter(self, stage: Tensor) -> None:
        """Put all environments into stage int64[L, E], none idle, once pending copies to the device are done."""
        if self.obs.is_cuda:
            torch.cuda.current_stream(self.obs.device).synchronize()
        self.stage.copy_(stage)
        task = self._ids[self.stage]
        if self.context is not None:
            self.context.copy_(task)
        if self._clips is not None:
            self._clip.copy_(self._clips.gather(1, self.stage))
        self._code.copy_(torch.nn.functional.one_hot(task, self.suite.count))
        self.pool.arrays["idle"][:] = False

    def _request(self, row: int, episode: int = 0, actions: Sequence[Any] = ()) -> Request:
        """How a row starts: its task, its seed, the number of its episode and the actions taken so far."""
        lane, env = divmod(row, self.envs)
        stage = int(self.stage[lane, env])
        number = self.suite.seeds[lane] * 1_000_003 + 97 * self.stream + env % self.different + 1_000_000_007 * stage
        task = vars(self.suite.stages[lane][stage])
        return {"row": row, "task": task, "seed": mix_int(number) >> 1, "episode": episode, "actions": list(actions)}

    def step(self, action: Tensor) -> Transition:
        """Take actions int64[L, E] or float[L, E, A]; environments whose episode ended are reset."""
        self.start(action)
        return self.finish()

    def start(self, action: Tensor) -> None:
        """Begin a step: workers take the actions while this process does something else. `finish` must follow."""
        self._before.copy_(self.obs)
        self._given = self._give(action)
        self._action = action
        self.pool.start_step()

    def finish(self) -> Transition:
        """The transition of the step that `start` began."""
        self.pool.finish_step()
        self._see("shown", self.obs)
        ended = self.pool.arrays["terminated"] | self.pool.arrays["truncated"] | self.pool.arrays["failed"]
        for past, taken, over in zip(self.history, self._given.tolist(), ended.tolist(), strict=True):
            past.append(taken)
            if over:
                past.clear()
        self._see("after", self._after)
        reward, terminated, truncated = (self._sent[name]() for name in ("reward", "terminated", "truncated"))
        if self._clips is not None:
            reward.clamp_(-self._clip, self._clip)
        return Transition(self._before, self._action, reward, self._after, terminated, truncated, self.context)

    def play(self, action: Tensor) -> None:
        """Take actions [L, E, …], with the results in `host` and `obs`."""
        self._give(action)
        self.pool.step()
        self._see("shown", self.obs)

    def _give(self, action: Tensor) -> NDArray[Any]:
        """Show the actions to the workers; return them row by row."""
        given = action.to("cpu", copy=True).flatten(0, 1).numpy()
        self.pool.arrays["action"][...] = given
        return given

    def _whole(self, name: str) -> Tensor:
        """A shared array as a host tensor [L, E, …], without a copy."""
        rows = self.pool.arrays[name]
        return torch.from_numpy(rows.reshape(self.lanes, self.envs, *rows.shape[1:]))

    def _see(self, name: str, into: Tensor) -> None:
        """Write observations [L, E, …], followed by the one-hot id of a visible task."""
        raw = self._sent[name]()
        into.copy_(torch.cat([raw, self._code], dim=-1) if self.suite.coded else raw)

    def state_dict(self) -> dict[str, Tensor]:
        """Stage, episode number and the actions of the episode so far: enough to replay it."""
        longest = max(map(len, self.history))
        width = self.pool.arrays["action"].shape[1:]
        actions = torch.zeros(len(self.history), longest, *width, dtype=torch.float64)
        for row, past in enumerate(self.history):
            if past:
                actions[row, : len(past)] = torch.tensor(past, dtype=torch.float64)
        length = torch.tensor([len(past) for past in self.history])
        episode = torch.from_numpy(self.pool.arrays["episode"].copy())
        failed = torch.tensor([lane in self.suite.lost for lane in range(self.lanes)])
        now = {"stage": self.stage.clone(), "episode": episode, "length": length, "actions": actions}
        return {**now, "failed": failed}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state of a world of the same suite by replaying its episodes; lanes that have ended stay so."""
        self.suite.lost.update(torch.as_tensor(state.get("failed", ())).nonzero().flatten().tolist())
        self._enter(state["stage"])
        kind = self.pool.arrays["action"].dtype
        self.history = [
            actions[:length].numpy().astype(kind).tolist()
            for actions, length in zip(state["actions"], state["length"].tolist(), strict=True)
        ]
        episodes = state["episode"].tolist()
        self.pool.begin([self._request(row, episodes[row], past) for row, past in enumerate(self.history)])
        self._see("shown", self.obs)


class _Sent:
    """A host tensor and its copy on the device. On CUDA it goes through pinned memory, so the copy is asynchronous; the
    caller must synchronise with the device before the next one.
    """

    def __init__(self, host: Tensor, device: torch.device) -> None:
        self.host = host
        self.pinned = torch.empty_like(host).pin_memory() if device.type == "cuda" else host
        self.image = torch.empty_like(host, device=device)

    def __call__(self) -> Tensor:
        """Update the copy and return it."""
        if self.pinned is not self.host:
            self.pinned.copy_(self.host)
        return self.image.copy_(self.pinned, non_blocking=True)


class GymEvaluator:
    """Mean score of test episodes whose starts are the same at every call; stages run in parallel, as many at once as
    fit into `most` environments.
    """

    most = 2048

    def __init__(self, suite: GymSuite, episodes: int) -> None:
        self.suite, self.episodes = suite, episodes
        self.worlds: dict[int, GymWorld] = {}
        self.incidents: list[Incident] = []
        """Failures so far; a truncated episode counts with its return up to then. The score of a lane that has ended
        has no meaning.
        """

    def _world(self, stages: int) -> GymWorld:
        """Environments for this number of stages at once, created at the first call."""
        if stages not in self.worlds:
            world = GymWorld(self.suite, stages * self.episodes, Stream.EVALUATE, self.episodes)
            world.pool.incidents = self.incidents
            self.worlds[stages] = world
        return self.worlds[stages]

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """float64[L, M] of stages int64[L, M]."""
        stage, count = stage.cpu(), stage.shape[1]
        width = max(self.most // (len(stage) * self.episodes), 1)
        width = math.ceil(count / math.ceil(count / width))
        last = stage[:, -1:].expand(-1, -count % width)  # played again, so that all parts have the same width
        scores = [self._score(policy, part) for part in torch.cat([stage, last], dim=1).split(width, dim=1)]
        return torch.cat(scores, dim=1)[:, :count]

    def _score(self, policy: Policy, stage: Tensor) -> Tensor:
        """float64[L, M] of stages int64[L, M], all at once."""
        world = self._world(stage.shape[1])
        world.reset(stage.repeat_interleave(self.episodes, dim=1))
        total = torch.zeros(world.lanes, world.envs, dtype=torch.float64)
        running, succeeded = ~world.host["failed"], torch.zeros_like(total, dtype=torch.bool)
        action: Tensor | None = None
        while bool(running.any()):
            action = self._chosen(policy, world, running, action)
            world.play(action)
            total += world.host["reward"] * running
            succeeded |= world.host["success"] & running
            running &= ~(world.host["terminated"] | world.host["truncated"] | world.host["failed"])
            world.host["idle"].copy_(~running)
        total, succeeded = (x.unflatten(1, (-1, self.episodes)) for x in (total, succeeded))
        return self._scaled(stage, total, succeeded).mean(-1)

    def _scaled(self, stage: Tensor, total: Tensor, succeeded: Tensor) -> Tensor:
        """Scores [L, M, episodes] of returns and successes, as the tasks of stages int64[L, M] define them."""
        tasks = [[self.suite.stages[lane][k] for k in row] for lane, row in enumerate(stage.tolist())]
        low, high = (
            torch.tensor([[getattr(t, end) for t in row] for row in tasks])[..., None] for end in ("low", "high")
        )
        success = torch.tensor([[task.success for task in row] for row in tasks])[..., None]
        return torch.where(success, succeeded.double(), (total - low) / (high - low))

    def _chosen(self, policy: Policy, world: GymWorld, running: Tensor, before: Tensor | None) -> Tensor:
        """Actions [L, E, …]; the policy is not called for stages that all lanes have finished."""
        going = running.unflatten(1, (-1, self.episodes)).any(-1).any(0)
        if before is None or bool(going.all()):
            return policy(world.obs, world.context)
        columns = going.repeat_interleave(self.episodes).nonzero().squeeze(1).to(world.obs.device)
        seen = None if world.context is None else world.context[:, columns]
        return before.index_copy(1, columns, policy(world.obs[:, columns], seen))
