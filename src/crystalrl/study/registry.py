"""What the names in a spec mean: one dict literal per kind. To add a memory, add an entry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from crystalrl.agents import DQN, NEC, SAC, TD3, DQNParams, NECParams, Rainbow, RainbowParams, SACParams, TD3Params
from crystalrl.memory import CrystalMemory, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.prioritized import PrioritizedParams
from crystalrl.memory.reservoir import ReservoirParams
from crystalrl.memory.storage.spec import Shape, StorageOptions
from crystalrl.params import CrystalParams
from crystalrl.study.kinds import METHODS, Kind, MethodKind, NoParams, Values
from crystalrl.study.spec import RunSpec, unknown
from crystalrl.suites import benchmarks, classic
from crystalrl.suites.square import SquareName
from crystalrl.suites.tasks import Sequence as TaskSequence


@dataclass(frozen=True)
class MemoryKind(Kind):
    """A memory: its class."""

    memory: Any = None

    def build(
        self, capacity: int, preset: str, values: Values, storage: StorageOptions, anchors: Mapping[str, Shape]
    ) -> ReplayMemory:
        """A memory for all lanes; `anchors` are the outputs of the agent that it may anchor."""
        made: ReplayMemory = self.memory(capacity, **values, **storage)
        return made


@dataclass(frozen=True)
class CrystalKind(MemoryKind):
    """The crystal memory, with presets. In a spec "off" means None and "6:2:8" a tuple of shares."""

    def settings(self, preset: str, values: Values) -> CrystalParams:
        make = getattr(CrystalParams, preset) if preset else CrystalParams
        params: CrystalParams = make(**{name: _notation(value) for name, value in values.items()})
        return params

    def build(
        self, capacity: int, preset: str, values: Values, storage: StorageOptions, anchors: Mapping[str, Shape]
    ) -> ReplayMemory:
        params = self.settings(preset, values)
        return CrystalMemory(capacity, params=params, anchor=anchors if params.uses_anchors else None, **storage)


def _notation(value: Any) -> Any:
    if value == "off":
        return None
    return tuple(float(share) for share in value.split(":")) if isinstance(value, str) and ":" in value else value


MEMORIES: dict[str, MemoryKind] = {
    "uniform": MemoryKind("the newest experiences, sampled uniformly (VR)", NoParams, memory=UniformMemory),
    "prioritized": MemoryKind(
        "sampled by TD error (PER)", PrioritizedParams, ("alpha", "beta"), memory=PrioritizedMemory
    ),
    "reservoir": MemoryKind(
        "half recent experiences, half a uniform sample of all", ReservoirParams, memory=ReservoirMemory
    ),
    "crystal": CrystalKind(
        "experiences that crystallize with use and melt when contradicted",
        CrystalParams,
        tuple(f.name for f in fields(CrystalParams) if "PerLane" in str(f.type)),
        ("anchored", "unanchored", "repaired", "paper", "paper_robotics", "paper_games", "paper_navigation"),
    ),
}


@dataclass(frozen=True)
class AgentKind(Kind):
    """An agent: its class."""

    per_lane: tuple[str, ...] = ("learning_rate",)
    agent: Any = None


AGENTS: dict[str, AgentKind] = {
    "dqn": AgentKind("double Q-learning, optionally dueling", DQNParams, agent=DQN),
    "rainbow": AgentKind("double, dueling, noisy, n-step, distributional Q-learning", RainbowParams, agent=Rainbow),
    "nec": AgentKind("neural episodic control; with the method nec", NECParams, agent=NEC),
    "sac": AgentKind("soft actor-critic, automatic temperature; box actions", SACParams, agent=SAC),
    "td3": AgentKind("twin delayed deterministic policy gradient; box actions", TD3Params, agent=TD3),
}

SUITE_NOTES = {
    "nav": "In each task the agent walks to a goal in a square; tasks differ in the goal and in the permutation of the "
    "five actions. The score is the share of test episodes that reach the goal.",
    "reach": "In each task the agent walks to a goal in a square; actions are vectors, and tasks differ in the goal "
    "and in how they turn and mirror the actions. The score is the share of test episodes that reach the goal.",
    "drift": "The agent walks to a goal in a square; goal and directions change slowly and all the time, without task "
    "boundaries. The score of a stage is the share of test episodes that reach the goal where the stage ended.",
    **dict.fromkeys(
        (*classic.FAMILIES, "classic", "minatar", "gym"),
        "With several tasks the score is 0 for a random policy and 1 for a good one; with one it is the mean return.",
    ),
}
"""Tasks and score of a suite, by the first word of its name."""

SUITES: dict[str, str] = {
    "nav-N": "N navigation tasks, with the task id in the observation",
    "nav-N-redefined": "then tasks 1 and 2 are redefined with other goals",
    "nav-N-goals": "the observation also shows the goal, for hindsight experience replay; reach-N-goals, too",
    "nav-N-hidden": "no task id: landmarks distinguish the tasks",
    "reach-N": "the same goals with box actions, which each task turns and may mirror",
    "reach-N-redefined": "then tasks 1 and 2 are redefined with other goals",
    "reach-N-hidden": "no task id: landmarks distinguish the tasks",
    "drift-N": "navigation in which goal and directions drift over N stages, without task boundaries",
    "cartpole[-N]": "balance a pole; N tasks with their own physics, every second one mirrored",
    "acrobot[-N]": "swing up two links",
    "pendulum[-N]": "swing up a pendulum; box actions",
    "mountaincar[-N]": "drive an underpowered car uphill; box actions",
    "classic": "CartPole, Acrobot, Pendulum and MountainCarContinuous, of different sizes, box actions",
    "classic-discrete": "CartPole and Acrobot",
    "classic-continuous": "Pendulum and MountainCarContinuous",
    "minatar-5": "five MinAtar games; minatar-GAME: a single one",
    "gym:ID": "any single Gymnasium environment, such as gym:HalfCheetah-v5",
    **benchmarks.ABOUT,
}
"""Names of suites and descriptions. FAMILY-N-hidden hides the task id."""


def presets() -> dict[str, str]:
    """Presets of the crystal memory, with one-line descriptions."""
    return {
        name: (getattr(CrystalParams, name).__doc__ or "").partition("\n")[0] for name in MEMORIES["crystal"].presets
    }


OWNERS: dict[str, tuple[str, Mapping[str, Kind]]] = {
    "params": ("memory", MEMORIES),
    "method_params": ("method", METHODS),
    "agent_params": ("agent", AGENTS),
}
"""Section of a spec → the field that names what its settings belong to, and the entries that the field can name."""


def kinds_of(spec: RunSpec) -> dict[str, Kind]:
    """The entry for each section of a spec."""
    out: dict[str, Kind] = {}
    for section, (what, known) in OWNERS.items():
        name = getattr(spec, what)
        if name not in known:
            raise ValueError(unknown(what, name, set(known)))
        out[section] = known[name]
    return out


def check(spec: RunSpec) -> None:
    """Raise, naming the field, for any invalid name or value."""
    check_suite(spec.suite)
    kinds = kinds_of(spec)
    _check_boundaries(spec, METHODS[spec.method])
    if (spec.agent == "nec") != (spec.method == "nec"):
        raise ValueError(
            f"method: wanted nec with the agent nec and with no other, got {spec.method} with {spec.agent}"
        )
    presets = kinds["params"].presets
    if spec.preset and spec.preset not in presets:
        raise ValueError(
            unknown("preset", spec.preset, set(presets))
            if presets
            else f"preset: wanted none, as {spec.memory} has no presets, got {spec.preset!r}"
        )
    for cell in spec.cells().values():
        for section, kind in kinds.items():
            _check_settings(section, kind, cell)


def _check_boundaries(spec: RunSpec, method: MethodKind) -> None:
    """Raise if the suite has no task boundaries and the spec needs some."""
    if has_boundaries(spec.suite):
        return
    if method.needs_boundaries:
        raise ValueError(f"method: wanted one that needs no task boundaries for {spec.suite}, got {spec.method!r}")
    for name, only in (("order", 0), ("orders", 1)):
        if getattr(spec, name) != only:
            raise ValueError(f"{name}: wanted {only} for {spec.suite}, which has one order, got {getattr(spec, name)}")


def _check_settings(section: str, kind: Kind, cell: RunSpec) -> None:
    owner, given = getattr(cell, OWNERS[section][0]), getattr(cell, section)
    known = {f.name for f in fields(kind.params)}
    for name in given:
        if name not in known:
            none = f"{section}: wanted none, as {owner} has no settings, got {name!r}"
            raise ValueError(unknown(f"{section}.{name}", name, known) if known else none)
    try:
        kind.settings(cell.preset, given)
    except ValueError as error:
        raise ValueError(f"{section}.{error}") from error
    except TypeError as error:
        raise ValueError(f"{section}: wanted values of the right type, got {given}") from error


def check_suite(name: str | TaskSequence) -> None:
    """Raise if no suite has this name. A sequence of tasks was checked at construction."""
    if isinstance(name, TaskSequence):
        return
    if not isinstance(name, str):
        raise ValueError(f"suite: wanted a name or a Sequence of tasks, got {name!r}")
    if benchmarks.benchmark(name) is not None or classic.stage_count(name) is not None:
        return
    try:
        SquareName.parse(name)
    except ValueError:
        number = re.search(r"\d+", name)
        known = [re.sub(r"\[(.*)\]", r"\1", suite).replace("N", number[0] if number else "8") for suite in SUITES]
        near = get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"suite: wanted {', '.join(SUITES)}, got {name!r}{hint}") from None


def has_boundaries(suite: str | TaskSequence) -> bool:
    """Whether a learner may know where one stage of a suite ends and the next begins."""
    return isinstance(suite, TaskSequence) or not suite.startswith("drift-")


def task_names(suite: str | TaskSequence) -> tuple[str, ...]:
    """Names of a suite's stages; empty if they are all of one kind."""
    own = benchmarks.sequence_of(suite)
    return classic.task_names(str(suite)) if own is None else own.names


def suite_note(name: str | TaskSequence) -> str:
    """What the tasks and the score of a suite are, in a sentence or two."""
    if isinstance(name, TaskSequence):
        scores = (
            f"{t.name} ({'success' if t.success else f'return from {t.low:g} to {t.high:g}'})" for t in name.tasks
        )
        return f"Tasks and what their scores measure: {', '.join(scores)}."
    published = benchmarks.benchmark(name)
    return published.note if published is not None else SUITE_NOTES[re.split("[-:]", name)[0]]
