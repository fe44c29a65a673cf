"""Which part of a crystal memory costs or helps on one task that does not change: DQN on CartPole, all seeds at once.

The settings are those of `examples/cleanrl_dqn.py`; the agent is the library's own, so that many seeds are cheap.
Rewards are constant and nothing contradicts, so interference and the value of successors are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from benchmarks.learning import PLAIN
from crystalrl import CrystalMemory, CrystalParams, UniformMemory
from crystalrl.agents.base import Spaces
from crystalrl.agents.dqn import DQN, DQNParams
from crystalrl.random import Streams
from crystalrl.suites.classic import suite

STEPS, SLOTS, ENVS, UPDATES, START, LAST = 10_000, 2_000, 4, 2, 500, 20
GAMMA, BATCH, EXPLORATION, LEAST = 0.98, 128, 0.3, 0.05
CRYSTAL = CrystalParams.anchored(interference="none", backup=0.0, w3=0.0)
PARTS: dict[str, CrystalParams | None] = {
    "uniform memory": None,
    "c ≡ 0, the least useful leaves first": replace(PLAIN, w1=CRYSTAL.w1, w2=CRYSTAL.w2),
    "crystals": CRYSTAL,
    "crystals without anchors": replace(CRYSTAL, kappa=0.0),
    "crystals without gate": replace(CRYSTAL, gate=0.0),
    "crystals without both": replace(CRYSTAL, kappa=0.0, gate=0.0),
}


def scores(params: CrystalParams | None, seeds: list[int]) -> list[float]:
    """Mean return of the last episodes of training, for every seed."""
    streams, lanes = Streams(seeds), len(seeds)
    settings = DQNParams(width=64, gamma=GAMMA, double=False, clip=1e9)
    agent = DQN(Spaces((4,), 2), settings, streams)
    shape = {"obs": (4,), "action": 2, "lanes": lanes, "envs": ENVS, "gamma": GAMMA, "seed": seeds}
    memory: UniformMemory | CrystalMemory = UniformMemory(SLOTS, **shape)
    if params is not None:
        memory = CrystalMemory(SLOTS, params=params, anchor={"q": (2,)}, **shape)
    world = suite("cartpole", seeds).world(ENVS)
    world.begin(torch.zeros(lanes, dtype=torch.int64))
    score, returns = torch.zeros(lanes, ENVS), [[] for _ in seeds]
    for step in range(0, STEPS, ENVS):
        epsilon = max(LEAST, 1 - (1 - LEAST) * step / (EXPLORATION * STEPS))
        seen = world.step(agent.act(world.obs, torch.tensor(epsilon)))
        memory.add(seen)
        score, ended = score + seen.reward, seen.terminated | seen.truncated
        for lane, env in ended.nonzero().tolist():
            returns[lane].append(float(score[lane, env]))
        score *= ~ended
        if step < START:
            continue
        for _ in range(UPDATES):
            batch = memory.sample(BATCH)
            memory.update(batch.index, agent.update(batch).td_error)
        if memory.due:
            memory.consolidate(agent.evaluate)
    return [float(np.mean(each[-LAST:])) for each in returns]
