"""What a spec's names stand for: one dict literal per kind. To add a memory, add a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import torch

from crystalrl.agents import DQN, SAC, TD3, Agent, DQNParams, Rainbow, RainbowParams, SACParams, Spaces, TD3Params
from crystalrl.memory import CrystalMemory, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.prioritized import PrioritizedParams
from crystalrl.memory.reservoir import ReservoirParams
from crystalrl.memory.storage.spec import Shape, StorageOptions
from crystalrl.methods import EWC, Distill, DistillParams, EWCParams, Method
from crystalrl.params import CrystalParams
from crystalrl.random import Streams
from crystalrl.study.spec import RunSpec, unknown
from crystalrl.suites import classic
from crystalrl.suites.base import Suite
from crystalrl.suites.nav import Nav, NavName

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Plain:
    """Settings of what has none."""


@dataclass(frozen=True)
class Kind:
    """One entry: what it is in a line, the class of its settings, which of them may differ between lanes."""

    about: str
    params: type[Any]
    per_lane: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    told: bool = False
    """Whether it is told where a task ends."""

    def settings(self, preset: str, values: Values) -> Any:
        """The settings, checked."""
        return self.params(**values)

    def lane_numbers(self, preset: str, values: Values) -> dict[str, Any]:
        """What may differ between lanes, given or not: name → number, or None where it is switched off."""
        settings = self.settings(preset, values)
        return {name: getattr(settings, name) for name in self.per_lane}


@dataclass(frozen=True)
class MemoryKind(Kind):
    """A memory: its class."""

    memory: Any = None

    def build(
        self, capacity: int, preset: str, values: Values, storage: StorageOptions, anchors: Mapping[str, Shape]
    ) -> ReplayMemory:
        """A memory for every lane; `anchors` are the outputs of the agent that it may hold."""
        made: ReplayMemory = self.memory(capacity, **values, **storage)
        return made


@dataclass(frozen=True)
class CrystalKind(MemoryKind):
    """The crystal memory: presets, and three notations: "off" is None, "6:2:8" shares, the rest as in CrystalParams."""

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
    "uniform": MemoryKind("the newest experiences, drawn uniformly (VR)", Plain, memory=UniformMemory),
    "prioritized": MemoryKind(
        "drawn by TD error (PER)", PrioritizedParams, ("alpha", "beta"), memory=PrioritizedMemory
    ),
    "reservoir": MemoryKind(
        "half recent, half a uniform sample of everything", ReservoirParams, memory=ReservoirMemory
    ),
    "crystal": CrystalKind(
        "experiences that crystallize with use and melt when contradicted",
        CrystalParams,
        tuple(f.name for f in fields(CrystalParams) if "PerLane" in str(f.type)),
        ("paper", "anchored", "robotics", "games", "navigation"),
    ),
}

METHODS: dict[str, Kind] = {
    "none": Kind("nothing beside the memory", Plain),
    "ewc": Kind("parameters that mattered for old tasks are held in place", EWCParams, ("strength",), told=True),
    "distill": Kind("stored outputs hold the network where it is replayed", DistillParams, ("coefficient",), told=True),
}


@dataclass(frozen=True)
class AgentKind(Kind):
    """An agent: its class."""

    per_lane: tuple[str, ...] = ("learning_rate",)
    agent: Any = None


AGENTS: dict[str, AgentKind] = {
    "dqn": AgentKind("double Q-learning, optional dueling", DQNParams, agent=DQN),
    "rainbow": AgentKind("double, dueling, noisy, n-step, distributional Q-learning", RainbowParams, agent=Rainbow),
    "sac": AgentKind("soft actor-critic, automatic temperature; box actions", SACParams, agent=SAC),
    "td3": AgentKind("twin delayed deterministic policy gradient; box actions", TD3Params, agent=TD3),
}

SUITE_NOTES = {
    "nav": "Each task is a walk to a goal in a square, with its own goal and its own meaning of the five actions. The "
    "score is the share of test episodes that reach the goal.",
    **dict.fromkeys(
        (*classic.FAMILIES, "classic", "minatar", "gym"),
        "With several tasks the score is 0 for a random policy and 1 for a good one; with one it is the mean return.",
    ),
}
"""What a suite's tasks are and what its score means, by the first word of its name."""

SUITES: dict[str, str] = {
    "nav-N": "N navigation tasks, the id in the observation",
    "nav-N-redefined": "then tasks 1 and 2 again with other goals",
    "nav-N-hidden": "no id: landmarks tell the tasks apart",
    "cartpole[-N]": "balance a pole; N of them with their own physics, every second one mirrored",
    "acrobot[-N]": "swing up two links",
    "pendulum[-N]": "swing up a pendulum, box actions",
    "mountaincar[-N]": "rock a car uphill, box actions",
    "classic": "CartPole, Acrobot, Pendulum and MountainCarContinuous, of different sizes, box actions",
    "classic-discrete": "CartPole and Acrobot",
    "classic-continuous": "Pendulum and MountainCarContinuous",
    "minatar-5": "five MinAtar games; minatar-GAME: one of them",
    "gym:ID": "any one environment of Gymnasium, such as gym:HalfCheetah-v5",
}
"""FAMILY-N-hidden does not show the id."""


def presets() -> dict[str, str]:
    """The crystal memory's presets, each in a line."""
    return {
        name: (getattr(CrystalParams, name).__doc__ or "").partition("\n")[0] for name in MEMORIES["crystal"].presets
    }


def kinds_of(spec: RunSpec) -> dict[str, Kind]:
    """The catalogue entry behind each section of a spec."""
    named = (("params", "memory", MEMORIES), ("method_params", "method", METHODS), ("agent_params", "agent", AGENTS))
    out: dict[str, Kind] = {}
    for section, what, known in named:
        name = getattr(spec, what)
        if name not in known:
            raise ValueError(unknown(what, name, set(known)))
        out[section] = known[name]
    return out


def check(spec: RunSpec) -> None:
    """Raise, naming the field, for any name or value that could only fail later."""
    check_suite(spec.suite)
    kinds = kinds_of(spec)
    presets = kinds["params"].presets
    if spec.preset and spec.preset not in presets:
        raise ValueError(
            unknown("preset", spec.preset, set(presets))
            if presets
            else f"preset: {spec.memory} has none, got {spec.preset!r}"
        )
    for cell in spec.cells().values():
        for section, kind in kinds.items():
            known = {f.name for f in fields(kind.params)}
            for name in getattr(cell, section):
                if name not in known:
                    raise ValueError(
                        unknown(f"{section}.{name}", name, known)
                        if known
                        else f"{section}: none are known, got {name!r}"
                    )
            try:
                kind.settings(cell.preset, getattr(cell, section))
            except ValueError as error:
                raise ValueError(f"{section}.{error}") from error
            except TypeError as error:
                raise ValueError(f"{section}: wanted values of the right kind, got {getattr(cell, section)}") from error


def check_suite(name: str) -> None:
    """Raise if no suite has this name."""
    if classic.stage_count(name) is not None:
        return
    try:
        NavName.parse(name)
    except ValueError:
        number = re.search(r"\d+", name)
        known = [re.sub(r"\[(.*)\]", r"\1", suite).replace("N", number[0] if number else "8") for suite in SUITES]
        near = get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"suite: wanted {', '.join(SUITES)}, got {name!r}{hint}") from None


def make_suite(name: str, seeds: Sequence[int], device: torch.device) -> Suite:
    """The tasks of every lane."""
    return Nav(name, seeds, device) if name.startswith("nav-") else classic.suite(name, seeds, device)


def make_agent(spec: RunSpec, suite: Suite, streams: Streams, values: Values) -> Agent:
    """The agents of every lane."""
    kind = AGENTS[spec.agent]
    made: Agent = kind.agent(Spaces(suite.obs, suite.action, len(set(suite.tasks))), kind.params(**values), streams)
    return made


def make_method(spec: RunSpec, agent: Agent, memory: ReplayMemory, values: Values) -> Method:
    """The method, bound to agent and memory."""
    if spec.method == "ewc":
        return EWC(agent, EWCParams(**values), Streams(memory.streams.seeds.tolist(), memory.device))
    if spec.method == "distill":
        return Distill(agent, memory, DistillParams(**values))
    return Method()


def make_memory(spec: RunSpec, suite: Suite, agent: Agent, values: Values) -> ReplayMemory:
    """The memories of every lane, for what the suite shows and the agent discounts."""
    storage: StorageOptions = {
        "obs": suite.obs,
        "obs_dtype": suite.obs_dtype,
        "action": suite.action,
        "lanes": len(agent.theta),
        "envs": spec.envs,
        "gamma": agent.params.gamma,
        "n_step": agent.params.n_step,
        "context": suite.context,
        "seed": agent.streams.seeds.tolist(),
        "device": agent.theta.device,
    }
    return MEMORIES[spec.memory].build(spec.capacity, spec.preset, values, storage, agent.anchors)
