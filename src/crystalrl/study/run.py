"""The loop. `run` is a generator: it learns, and tells its caller what happened; it prints and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.random import Streams
from crystalrl.study import registry
from crystalrl.study.cuda_graph import Captured
from crystalrl.study.plan import Group
from crystalrl.study.worlds import load_world, world_state
from crystalrl.suites.base import Policy, every_stage
from crystalrl.suites.workers import Incident


@dataclass(frozen=True)
class Built:
    """The run is set up; bytes of memory per lane, the method's own included."""

    nbytes: int


@dataclass(frozen=True)
class Progress:
    """Where a run stands: steps done and to do per lane, over all stages."""

    stage: int
    done: int
    total: int


@dataclass(frozen=True)
class Curve:
    """Score float64[L] on the stage being learnt, after `step` steps of it."""

    stage: int
    step: int
    score: Tensor


@dataclass(frozen=True)
class Scored:
    """Scores float64[L, S] on every stage after `after` stages were learnt (0: untrained)."""

    after: int
    score: Tensor


@dataclass(frozen=True)
class Consolidated:
    """What a consolidation reports, after `done` steps: name → float64[L]."""

    stage: int
    done: int
    values: Mapping[str, Tensor]


Event = Built | Progress | Curve | Scored | Consolidated | Incident


class Learner:
    """Everything that learns in one run. Invariant: on CUDA every tensor it touches in a step stays where it is;
    `stage` counts the stages learnt and `step` the steps into the next one.
    """

    def __init__(self, group: Group, device: torch.device) -> None:
        spec, seeds = group.spec, [lane.seed for lane in group.lanes]
        self.spec, self.device, self.group = spec, device, group
        self.suite = registry.make_suite(spec.suite, seeds, device)
        self.world = self.suite.world(spec.envs)
        self.agent = registry.make_agent(spec, self.suite, Streams(seeds, device), group.values["agent_params"])
        self.memory = registry.make_memory(spec, self.suite, self.agent, group.values["params"])
        self.method = registry.make_method(spec, self.agent, self.memory, group.values["method_params"])
        self.scorer = self.suite.scorer(spec.episodes)
        self.schedule = torch.tensor([lane.stages for lane in group.lanes], device=device)
        self.clock = torch.zeros((), device=device)
        """Environment steps since the stage began."""
        self.stage = self.step = 0
        self.begun = False
        """Whether the untrained agent was scored."""
        box = () if isinstance(self.suite.action, int) else self.suite.action
        kind = torch.float32 if box else torch.int64
        self.action = torch.zeros(len(seeds), spec.envs, *box, dtype=kind, device=device)
        parts = [self._step] if self.suite.capturable else [self._act, self._keep]
        self._parts = [Captured(part, device) for part in parts]
        """What `collect` does, as far as a graph can hold it."""
        self.learn = Captured(self._learn, device)

    def begin(self, stage: int) -> None:
        """Put every lane at the start of its stage."""
        self.clock.zero_()
        self.world.begin(self.schedule[:, stage])
        self.method.task_start(self.agent, self.memory, stage)

    def end(self, stage: int) -> None:
        self.method.task_end(self.agent, self.memory, stage)

    def collect(self) -> None:
        """Act in every environment once and remember it."""
        *before, last = self._parts
        for part in before:
            part()
        if before:
            self._take()
        if last.graph is not None:
            self.memory.reserve()
        last()

    def _step(self) -> None:
        self._act()
        self._take()
        self._keep()

    def _act(self) -> None:
        """Choose the actions."""
        spec = self.spec
        fallen = (1 - spec.epsilon) * self.clock / max(spec.explore * spec.steps, 1.0)
        action = self.agent.act(self.world.obs, (1 - fallen).clamp_min(spec.epsilon), self.world.context)
        self.action.copy_(action)
        self.clock += spec.envs

    def _take(self) -> None:
        """Step the environments."""
        self.transition = self.world.step(self.action)

    def _keep(self) -> None:
        """Remember what came of it."""
        self.method.stored(self.memory.add(self.transition))

    def _learn(self) -> None:
        """Replay one batch."""
        batch = self.method.augment(self.memory.sample(self.spec.batch))
        self.memory.update(batch.index, self.agent.update(batch, self.method).td_error)

    def state(self) -> dict[str, Tensor] | None:
        """Everything that decides what happens next, on CPU; None inside a stage that cannot be left."""
        world = world_state(self.world, self.suite.capturable, between=not self.step)
        if world is None:
            return None
        parts: dict[str, Mapping[str, Tensor]] = {
            "agent": self.agent.state_dict(),
            "memory": self.memory.state_dict(),
            "method": {name: tensor.detach().to("cpu", copy=True) for name, tensor in self.method.tensors().items()},
            "world": world,
            "run": {"clock": self.clock.to("cpu", copy=True), "at": torch.tensor([self.stage, self.step])},
        }
        return {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        parts: dict[str, dict[str, Tensor]] = {"agent": {}, "memory": {}, "method": {}, "world": {}, "run": {}}
        for full, tensor in state.items():
            part, _, name = full.partition(".")
            parts[part][name] = tensor
        self.agent.load_state_dict(parts["agent"])
        self.memory.load_state_dict(parts["memory"])
        for name, tensor in self.method.tensors().items():
            tensor.copy_(parts["method"][name])
        load_world(self.world, self.suite.capturable, parts["world"])
        self.clock.copy_(parts["run"]["clock"])
        self.stage, self.step = parts["run"]["at"].tolist()
        self.begun = True

    def incidents(self) -> Iterator[Incident]:
        """What went wrong in environments since the last call."""
        for place in (self.world, self.scorer):
            yield from place.incidents
            place.incidents.clear()

    def score_all(self, policy: Policy | None = None) -> Tensor:
        """float64[L, S] on every stage; of the agent, unless another policy is given."""
        stages = every_stage(self.suite, len(self.group.lanes), self.device)
        return self.scorer.score(policy or self.agent.greedy, stages).cpu()

    def score_current(self, stage: int, policy: Policy | None = None) -> Tensor:
        """float64[L] on the stage being learnt."""
        return self.scorer.score(policy or self.agent.greedy, self.schedule[:, stage : stage + 1]).squeeze(1).cpu()


def run(group: Group, device: torch.device | str = "cpu", learner: Learner | None = None) -> Iterator[Event]:
    """Learn all stages in order, every lane its own; a given learner goes on where it is.

    Whenever `Progress` or `Scored` comes, `learner.state()` holds all that is to come.
    """
    learner = learner or Learner(group, torch.device(device))
    if not learner.begun:
        yield Built((learner.memory.nbytes + learner.method.nbytes) // len(group.lanes))
        learner.begun = True
        yield Scored(0, learner.score_all())
    for stage in range(learner.stage, learner.schedule.shape[1]):
        if not learner.step:
            learner.begin(stage)
        for event in interact(learner, stage):
            yield from learner.incidents()
            if event.done > group.spec.warmup:
                learner.learn()
            if learner.memory.due:
                report = learner.memory.consolidate(learner.agent.evaluate)
                if report is not None:
                    yield Consolidated(stage, event.done, report.values)
            if point := _curve_step(group, event):
                yield Curve(stage, point, learner.score_current(stage))
            yield event
        learner.end(stage)
        learner.stage, learner.step = stage + 1, 0
        yield Scored(stage + 1, learner.score_all())
    yield from learner.incidents()


def interact(learner: Learner, stage: int) -> Iterator[Progress]:
    """Act in all environments, step by step, until the stage's steps are used up."""
    spec, total = learner.spec, learner.group.steps
    for step in range(learner.step, spec.steps // spec.envs):
        learner.collect()
        learner.step = step + 1
        yield Progress(stage, stage * spec.steps + (step + 1) * spec.envs, total)


def _curve_step(group: Group, event: Progress) -> int | None:
    """Steps into the stage if a point of its learning curve is due now."""
    spec = group.spec
    within = event.done - event.stage * spec.steps
    every = max(spec.steps // spec.envs // spec.points, 1) * spec.envs
    return within if within % every == 0 and within // every <= spec.points else None
