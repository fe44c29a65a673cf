"""The training loop. `run` is a generator of events; it prints and writes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from crystalrl.random import Streams
from crystalrl.study import build
from crystalrl.study.contents import contents
from crystalrl.study.cuda_graph import Captured
from crystalrl.study.episodes import EpisodeReturns
from crystalrl.study.events import Built, Consolidated, Curve, Event, Progress, Scored, Waiting
from crystalrl.study.plan import Group
from crystalrl.study.registry import has_boundaries
from crystalrl.study.schedule import curve_step, updates_due
from crystalrl.suites.base import Policy, every_stage, load_world, world_state
from crystalrl.suites.workers import Incident
from crystalrl.types import Memory


class Trainer:
    """Agent, memory, method and environments of one run.

    Invariant: on CUDA, every tensor that a step touches keeps its storage. `stage` is the number of completed stages
    and `step` the number of steps into the current one.
    """

    def __init__(self, group: Group, device: torch.device) -> None:
        spec, seeds = group.spec, [lane.seed for lane in group.lanes]
        self.spec, self.device, self.group = spec, device, group
        self.suite = build.make_suite(spec, seeds, device)
        self.world = self.suite.world(spec.envs)
        self.agent = build.make_agent(spec, self.suite, Streams(seeds, device), group.values["agent_params"])
        memory = build.make_memory(spec, self.suite, self.agent, group.values["params"])
        self.memory: Memory = memory
        self.episodes = EpisodeReturns(group, memory.spec.n_step, device) if spec.memory == "crystal" else None
        """Returns of the episodes that are stored in memories with phases."""
        self.method = build.make_method(spec, self.suite, self.agent, memory, group.values["method_params"])
        self.evaluator = self.suite.evaluator(spec.episodes)
        self.schedule = torch.tensor([lane.stages for lane in group.lanes], device=device)
        """int64[L, K]: the stages of every lane, in training order."""
        self.clock = torch.zeros((), device=device)
        """Environment steps since the start of the stage; without boundaries, since the start of the run."""
        self.horizon = torch.zeros((), device=device)
        """Environment steps over which exploration decreases in the current stage."""
        self.bounded = has_boundaries(spec.suite)
        """Whether agent and method may know where a stage begins and ends."""
        self.stage = self.step = 0
        self.begun = self.pauses = False
        """Whether the untrained agent was evaluated; whether the run says when it waits for its environments."""
        self.failed = torch.zeros(len(seeds), dtype=torch.bool)
        """bool[L]: learners that an environment has ended. They keep training; their results are not used."""
        box = () if isinstance(self.suite.action, int) else self.suite.action
        kind = torch.float32 if box else torch.int64
        self.action = torch.zeros(len(seeds), spec.envs, *box, dtype=kind, device=device)
        parts = [self._collect] if self.suite.capturable else [self._act, self._store]
        here = self.memory.device.type == device.type
        self._parts = [Captured(part, device, here or part == self._act) for part in parts]
        """The parts of `collect` that a CUDA graph can hold; a memory on CPU is not one of them."""
        self.learn = Captured(self._learn, device, here and self.method.capturable)

    def begin(self, stage: int) -> None:
        """Put every lane at the start of its stage. Without boundaries, only the first stage is a start."""
        if stage and not self.bounded:
            return
        self.clock.zero_()
        self._set_horizon(stage)
        if stage and self.episodes is not None:
            self.episodes.cut()
        self.world.reset(self.method.stages(self.schedule, stage, self.spec.envs))
        if stage and self.method.clears:
            self.memory.clear()
        self.method.task_start(self.agent, self.memory, stage)

    def _set_horizon(self, stage: int) -> None:
        self.horizon.fill_(max(self.spec.explore * self.group.stage_steps[stage], 1.0))

    def end(self, stage: int) -> None:
        """Tell the method that a stage is complete, if there are boundaries."""
        if self.bounded:
            self.method.task_end(self.agent, self.memory, stage)

    def advance(self, updates: int) -> None:
        """One step of every environment, and this many updates."""
        self.launch(updates)
        self.complete()

    def launch(self, updates: int) -> None:
        """Choose actions, start a step of every environment, make this many updates. Worker processes step during the
        updates, which therefore do not see the new transitions yet; the order is the same without workers.
        """
        if self.suite.capturable:
            self.collect()
        else:
            self._parts[0]()
            self.world.start(self.action)
        for _ in range(updates):
            self.learn()

    def complete(self) -> None:
        """Wait for the environments and store the transitions."""
        if not self.suite.capturable:
            self.transition = self.world.finish()
            self._store_captured()

    def collect(self) -> None:
        """Take one step in every environment and store the transitions."""
        if not self.suite.capturable:
            self._parts[0]()
            self._step_world()
        self._store_captured()

    def _store_captured(self) -> None:
        """The last part, which stores the transitions."""
        if self._parts[-1].graph is not None:
            self.memory.reserve()
        self._parts[-1]()

    def _collect(self) -> None:
        self._act()
        self._step_world()
        self._store()

    def _act(self) -> None:
        """Choose the actions."""
        spec = self.spec
        fallen = (1 - spec.epsilon) * (self.clock - spec.random_steps) / self.horizon
        epsilon = (1 - fallen).clamp(spec.epsilon, 1.0)
        action = self.method.act(self.agent, self.world.obs, epsilon, self.world.context)
        self.action.copy_(action)
        self.clock += spec.envs

    def _step_world(self) -> None:
        """Step the environments."""
        self.transition = self.world.step(self.action)

    def _store(self) -> None:
        """Store the transitions."""
        stored = self.transition
        if self.spec.reward_scale != 1:
            stored = replace(stored, reward=torch.as_tensor(stored.reward) * self.spec.reward_scale)
        self.method.stored(self.memory.add(stored))
        if self.episodes is not None:
            self.episodes.step(stored)

    def _learn(self) -> None:
        """One gradient step on one replayed batch."""
        batch = self.method.augment(self.memory.sample(self.spec.batch))
        self.memory.update(batch, self.agent.update(batch, self.method).td_error)

    def state(self) -> dict[str, Tensor] | None:
        """Everything needed to continue, on CPU; None if the world cannot be saved at this step."""
        world = world_state(self.world, self.suite.capturable, between=not self.step)
        if world is None:
            return None
        parts: dict[str, Mapping[str, Tensor]] = {
            "agent": self.agent.state_dict(),
            "memory": self.memory.state_dict(),
            "method": {name: tensor.detach().to("cpu", copy=True) for name, tensor in self.method.tensors().items()},
            "world": world,
            "run": {
                "clock": self.clock.to("cpu", copy=True),
                "at": torch.tensor([self.stage, self.step]),
                "failed": self.failed.clone(),
            },
            "episodes": {} if self.episodes is None else self.episodes.state(),
        }
        return {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
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
        self._set_horizon(min(self.stage, self.schedule.shape[1] - 1))
        if self.episodes is not None:
            self.episodes.load(parts["episodes"], self.group.begins(self.stage) // self.spec.envs + self.step)
        self.failed.copy_(parts["run"].get("failed", self.failed))
        self.begun = True

    def incidents(self) -> Iterator[Incident]:
        """Failures of environments since the last call, with the names of their learners."""
        for source, during in ((self.world, "training"), (self.evaluator, "scoring")):
            found = list(source.incidents)
            source.incidents.clear()
            for incident in found:
                self.failed[incident.lane] |= incident.fatal
                lane = self.group.lanes[incident.lane]
                yield replace(incident, learner=f"{lane.cell}, seed {lane.seed}", during=during)

    def score_all(self, policy: Policy | None = None) -> Tensor:
        """Scores float64[L, S] on every stage, of the agent's greedy policy unless another policy is given."""
        return self._score(policy, every_stage(self.suite, len(self.group.lanes), self.device))

    def score_current(self, stage: int, policy: Policy | None = None) -> Tensor:
        """Scores float64[L] on the current stage."""
        return self._score(policy, self.schedule[:, stage : stage + 1]).squeeze(1)

    def _greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        return self.method.viewing(self.agent, obs, context)

    def _score(self, policy: Policy | None, stages: Tensor) -> Tensor:
        """Scores float64[L, M] of stages int64[L, M]; a learner whose score is not finite has failed."""
        score = self.evaluator.score(policy or self._greedy, stages).cpu()
        for lane, column in (~torch.isfinite(score) & ~self.failed[:, None]).nonzero().tolist():
            what = f"score: wanted a finite number, got {float(score[lane, column])}"
            stage = int(stages[lane, column])
            self.evaluator.incidents.append(Incident(lane, 0, f"stage {stage + 1}", what, fatal=True))
        return score


def run(group: Group, device: torch.device | str = "cpu", trainer: Trainer | None = None) -> Iterator[Event]:
    """Train on all stages, every lane in its own order; a given trainer continues from its current position.

    When `Progress` or `Scored` is yielded, `trainer.state()` is enough to continue the run.
    """
    trainer = trainer or Trainer(group, torch.device(device))
    if not trainer.begun:
        yield Built((trainer.memory.nbytes + trainer.method.nbytes) // len(group.lanes))
        trainer.begun = True
        yield from scored(trainer)
    for stage in range(trainer.stage, trainer.schedule.shape[1]):
        if not trainer.step:
            trainer.begin(stage)
        for event in interact(trainer, stage):
            if isinstance(event, Waiting):
                yield event
                continue
            yield from trainer.incidents()
            if bool(trainer.failed.all()):
                return
            if trainer.memory.due:
                report = trainer.memory.consolidate(trainer.agent.evaluate)
                if report is not None:
                    yield Consolidated(stage, event.done, report.values, report.histogram, report.followed)
            if point := curve_step(group, event.stage, event.done):
                score = trainer.score_current(stage)
                yield from trainer.incidents()
                yield Curve(stage, point, without_failed(score, trainer.failed))
            yield event
        trainer.end(stage)
        trainer.stage, trainer.step = stage + 1, 0
        yield from contents(trainer.memory, trainer.agent, group, stage, trainer.episodes)
        yield from scored(trainer)


def scored(trainer: Trainer) -> Iterator[Scored | Incident]:
    """Score all stages; incidents come first, so that `Scored` has no score of a learner that failed."""
    score = trainer.score_all()
    yield from trainer.incidents()
    yield Scored(trainer.stage, without_failed(score, trainer.failed))


def without_failed(score: Tensor, failed: Tensor) -> Tensor:
    """Scores [L] or [L, S], NaN where the learner has failed."""
    return torch.where(failed if score.dim() == 1 else failed[:, None], torch.nan, score)


def interact(trainer: Trainer, stage: int) -> Iterator[Progress | Waiting]:
    """Step all environments until the stage is complete."""
    group, envs = trainer.group, trainer.spec.envs
    begun, total = group.begins(stage), group.steps
    missing = 0 if trainer.suite.capturable else envs  # steps that are not stored yet when the updates are made
    missing += begun if trainer.method.clears else 0
    for step in range(trainer.step, group.stage_steps[stage] // envs):
        done = begun + (step + 1) * envs
        trainer.launch(updates_due(trainer.spec, done - missing))
        if trainer.pauses:
            yield Waiting()
        trainer.complete()
        trainer.step = step + 1
        yield Progress(stage, done, total)
