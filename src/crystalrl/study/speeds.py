"""Cost of runs on published benchmarks from stored speeds: nothing is built, and no package is needed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from crystalrl.study.forecast import Forecast
from crystalrl.study.plan import Group
from crystalrl.study.registry import MEMORIES
from crystalrl.suites.benchmark import Benchmark
from crystalrl.suites.benchmarks import benchmark


@dataclass(frozen=True)
class Speed:
    """Seconds of the parts of a benchmark."""

    round: float
    """A step of all environments, in addition to what each of them takes."""
    step: float
    """A step of one environment."""
    update: float
    """An update of all lanes, in addition to what each of them takes."""
    lane: float
    """An update of one lane with a batch of 256."""
    episode: int
    """Mean steps of a test episode; 0: the longest possible."""
    source: str

    def training(self, group: Group) -> float:
        """Seconds of all steps and updates of a run."""
        spec, lanes = group.spec, len(group.lanes)
        updates = spec.updates * spec.envs or 1.0
        update = self.update + self.lane * lanes * spec.batch / 256
        return group.steps / spec.envs * (self.stepped(lanes * spec.envs) + updates * update)

    def testing(self, group: Group, found: Benchmark) -> float:
        """Seconds of all test episodes of a run; those of all stages are played at once."""
        spec, learnt = group.spec, len(group.lanes[0].stages)
        episodes = len(group.lanes) * spec.episodes
        every = (learnt + 1) * self.stepped(episodes * len(found.tasks.tasks))
        points = learnt * spec.points * self.stepped(episodes)
        return (self.episode or found.episode) * (every + points)

    def stepped(self, environments: int) -> float:
        """Seconds of a step of this many environments."""
        return self.round + self.step * environments


@dataclass(frozen=True)
class Consolidating:
    """Seconds of a consolidation: fixed + each · experiences, of all lanes together."""

    fixed: float
    each: float
    source: str


@cache
def stored() -> tuple[dict[str, Speed], Consolidating]:
    """Speeds by extra, and the time of consolidations."""
    values = tomllib.loads((resources.files("crystalrl") / "study" / "speeds.toml").read_text(encoding="utf-8"))
    suites = {name: Speed(**given) for name, given in values["suites"].items()}
    return suites, Consolidating(**values["consolidation"])


def estimated(group: Group) -> Forecast | None:
    """The cost of a run; None if its suite is not a published benchmark."""
    found = benchmark(group.spec.suite) if isinstance(group.spec.suite, str) else None
    if found is None:
        return None
    speed, lanes = stored()[0][found.extra], len(group.lanes)
    seconds = speed.training(group) + speed.testing(group, found) + _consolidating(group, found)
    return Forecast(
        cells=tuple(dict.fromkeys(lane.cell for lane in group.lanes)),
        lanes=lanes,
        steps=group.steps * lanes,
        speed=lanes * group.steps / seconds,
        hours=seconds / 3600,
        at_least=False,
        source=f"{found.extra}, one H200 with 16 cores: {speed.source}",
    )


def _consolidating(group: Group, found: Benchmark) -> float:
    """Seconds of all consolidations."""
    spec, cost = group.spec, stored()[1]
    if spec.memory != "crystal":
        return 0.0
    params = MEMORIES["crystal"].settings(spec.preset, group.values["params"])
    interval: int = params.interval(spec.capacity)
    if params.every_episode:
        interval = min(interval, found.episode)
    each = cost.fixed + cost.each * spec.capacity * len(group.lanes)
    return group.steps / interval * each
