"""Which part of a crystal memory costs or helps on one task that does not change: DQN on CartPole, all seeds at once.

The settings are those of `examples/cleanrl_dqn.py`; the agent is the library's own, so that many seeds are cheap.
Rewards are constant and nothing is contradicted, so interference and the downstream value are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import stdev
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.harness.pages import table
from benchmarks.harness.results import Result, Setting
from benchmarks.libraries.learning import PLAIN, difference, interval
from crystalrl import CrystalMemory, CrystalParams, UniformMemory
from crystalrl.agents import DQN, DQNParams, Spaces
from crystalrl.random import Streams
from crystalrl.suites.classic import suite

STEPS, SLOTS, ENVS, UPDATES, START, LAST = 10_000, 2_000, 4, 2, 500, 20
GAMMA, BATCH, EXPLORATION, LEAST = 0.98, 128, 0.3, 0.05
SEEDS = 32
CRYSTAL = CrystalParams.anchored(interference="none", backup=0.0, w3=0.0)
PARTS: dict[str, CrystalParams | None] = {
    "uniform memory": None,
    "c ≡ 0, the least useful leaves first": replace(PLAIN, w1=CRYSTAL.w1, w2=CRYSTAL.w2),
    "crystals": CRYSTAL,
    "crystals without anchors": replace(CRYSTAL, kappa=0.0),
    "crystals without gate": replace(CRYSTAL, gate=0.0),
    "crystals without both": replace(CRYSTAL, kappa=0.0, gate=0.0),
}
LABELS = {
    "c ≡ 0, the least useful leaves first": "c ≡ 0, the least useful are evicted first",
    "crystals without both": "crystals without anchors and gate",
}
"""Names that tables use in place of those in the stored result."""


def scores(params: CrystalParams | None, seeds: list[int], steps: int) -> list[float]:
    """Mean return of the last episodes of training, for every seed."""
    lanes = len(seeds)
    agent = DQN(Spaces((4,), 2), DQNParams(width=64, gamma=GAMMA, double=False, clip=1e9), Streams(seeds))
    memory = _memory(params, agent, seeds)
    world = suite("cartpole", seeds).world(ENVS)
    world.reset(torch.zeros(lanes, dtype=torch.int64))
    score, returns = torch.zeros(lanes, ENVS), [list[float]() for _ in seeds]
    for step in range(0, steps, ENVS):
        epsilon = max(LEAST, 1 - (1 - LEAST) * step / (EXPLORATION * steps))
        seen = world.step(agent.act(world.obs, torch.tensor(epsilon)))
        memory.add(seen)
        score, ended = score + seen.reward, seen.terminated | seen.truncated
        for lane, env in ended.nonzero().tolist():
            returns[lane].append(float(score[lane, env]))
        score *= ~ended
        if step >= START:
            _learn(agent, memory)
    return [float(np.mean(each[-LAST:])) for each in returns]


def _memory(params: CrystalParams | None, agent: DQN, seeds: list[int]) -> UniformMemory | CrystalMemory:
    shape: Any = {"obs": (4,), "action": 2, "lanes": len(seeds), "envs": ENVS, "gamma": GAMMA, "seed": seeds}
    if params is None:
        return UniformMemory(SLOTS, **shape)
    return CrystalMemory(SLOTS, params=params, anchor=agent.anchors if params.uses_anchors else None, **shape)


def _learn(agent: DQN, memory: UniformMemory | CrystalMemory) -> None:
    for _ in range(UPDATES):
        batch = memory.sample(BATCH)
        memory.update(batch, agent.update(batch).td_error)
    if memory.due:
        memory.consolidate(agent.evaluate)


def measure(setting: Setting) -> Iterator[Result]:
    """All seeds of a part at once; what is stored is not run again."""
    found = dict(setting.stored or {})
    for name, params in PARTS.items():
        if name not in found:
            start = process_time()
            result = scores(params, list(range(2 if setting.quick else SEEDS)), 1_000 if setting.quick else STEPS)
            found[name] = {"scores": result, "seconds": round(process_time() - start, 1)}
            yield found


def block(found: Result) -> str:
    first, *_ = found.values()
    rows = []
    for name, each in found.items():
        runs = [{"algorithm": "", "buffer": "stock", "score": score} for score in first["scores"]]
        runs += [{"algorithm": "", "buffer": "ours", "score": score} for score in each["scores"]]
        d = difference(runs, "", "ours")
        rows.append([LABELS.get(name, name), f"{d['ours']:.0f}", "" if each is first else interval(d)])
    minutes = sum(each["seconds"] for each in found.values()) / 60
    last = (
        f"Standard deviation between seeds, uniform memory: {stdev(first['scores']):.0f}. All runs together took "
        f"{minutes:.0f} minutes of one core."
    )
    head = [f"{len(first['scores'])} seeds", "mean return", "difference [95 %, Welch]"]
    return table(head, rows) + "\n\n" + last
