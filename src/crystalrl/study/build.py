"""The parts of a run, built from its spec."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from crystalrl.agents import Agent, Spaces
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.storage.spec import StorageOptions
from crystalrl.methods import PNN, Method, Setup
from crystalrl.random import Streams
from crystalrl.study.kinds import METHODS, Values
from crystalrl.study.registry import AGENTS, MEMORIES
from crystalrl.study.spec import RunSpec
from crystalrl.suites import classic
from crystalrl.suites.base import Suite
from crystalrl.suites.benchmarks import benchmark
from crystalrl.suites.drift import Drift
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.nav import MAPPINGS, Nav
from crystalrl.suites.sizes import Sizes, sizes_of_all
from crystalrl.suites.tasks import Sequence as TaskSequence


def make_suite(spec: RunSpec, seeds: Sequence[int], device: torch.device) -> Suite:
    """The tasks of all lanes."""
    if isinstance(spec.suite, TaskSequence):
        return _sequence(spec.suite, sizes_of_all(spec.suite.tasks), seeds, device)
    published = benchmark(spec.suite)
    if published is not None:
        published.check_installed(spec.suite)
        return _sequence(published.tasks, published.sizes, seeds, device)
    family = spec.suite.partition("-")[0]
    if family == "drift":
        return Drift(spec.suite, seeds, device, spec.steps)
    return Nav(spec.suite, seeds, device) if family in MAPPINGS else classic.suite(spec.suite, seeds, device)


def _sequence(own: TaskSequence, sizes: Sizes, seeds: Sequence[int], device: torch.device) -> GymSuite:
    """Tasks that are given one by one, the same for all lanes."""
    return GymSuite([own.tasks] * len(seeds), sizes, seeds, device, not own.hidden, ids=own.ids)


def make_agent(spec: RunSpec, suite: Suite, streams: Streams, values: Values) -> Agent:
    """The agents of all lanes."""
    kind = AGENTS[spec.agent]
    made: Agent = kind.agent(Spaces(suite.obs, suite.action, len(set(suite.tasks))), kind.params(**values), streams)
    return made


def make_method(spec: RunSpec, suite: Suite, agent: Agent, memory: ReplayMemory, values: Values) -> Method:
    """The method, attached to agent and memory."""
    kind, streams = METHODS[spec.method], Streams(memory.streams.seeds.tolist(), memory.device)
    if agent.params.columns > 1 and kind.method is not PNN:
        raise ValueError(f"columns: wanted 1 without the method pnn, got {agent.params.columns}")
    setup = Setup(agent, memory, streams, suite.tasks, spec.batch, suite.goal_space)
    made: Method = kind.method(setup, kind.params(**values))
    return made


def make_memory(spec: RunSpec, suite: Suite, agent: Agent, values: Values) -> ReplayMemory:
    """The memories of all lanes, with the sizes of the suite and the discounting of the agent.

    Stacked frames are stored once, on CPU.
    """
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
        "device": agent.theta.device if suite.stack is None else "cpu",
    }
    if suite.stack is not None:
        storage |= {"stack": suite.stack, "deliver": agent.theta.device}
    return MEMORIES[spec.memory].build(spec.capacity, spec.preset, values, storage, agent.anchors)
