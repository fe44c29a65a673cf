"""Environments that raise or lie in the middle of a study: only their own learner suffers.

A unit is a study of three learners. One environment of one of them misbehaves once, while training or while scoring.
The tables of the others must be those of a study in which nothing happened, bit for bit.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from crystalrl.random import Stream
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store, read
from crystalrl.suites.classic import suite
from crystalrl.suites.gym import GymWorld
from crystalrl.suites.worker import reset_seed
from crystalrl.suites.workers import Incident
from tests.chaos.campaign import Attack, Verdict

NAME = "ChaosHostile-v0"
VARIABLE = "CHAOS_HOSTILE"
LENGTH = 10
SPEC = RunSpec(
    f"gym:{NAME}", memory="crystal", preset="anchored", seeds=(0, 1, 2), steps=200, capacity=64, batch=16, episodes=2,
    points=1, envs=2, agent_params={"width": 16},
)  # fmt: skip
RAISES = ("raise",)
"""The environment is replaced, its episode truncated, and its learner goes on."""
LIES = ("nan reward", "infinite reward", "nan observation", "huge observation", "short observation", "long observation")
"""The learner has failed: none of its numbers are stored."""


class Hostile(gymnasium.Env[Any, Any]):
    """Counts its steps. In the episode and step that the environment variable names, it misbehaves."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age, self.own = 0, seed
        return np.array([0.0, (seed or 0) % 97], np.float32), {}

    def step(self, action: Any) -> Any:
        self.age += 1
        obs, reward = np.array([self.age, (self.own or 0) % 97], np.float32), float(action)
        order = json.loads(os.environ.get(VARIABLE, "{}"))
        if order and (self.own, self.age) == (order["seed"], order["step"]):
            obs, reward = misbehave(order["how"], obs, reward)
        return obs, reward, False, self.age >= LENGTH, {}


def misbehave(how: str, obs: Any, reward: float) -> tuple[Any, float]:
    if how == "raise":
        raise ArithmeticError("the sky fell down")
    rewards = {"nan reward": np.nan, "infinite reward": -np.inf}
    seen = {
        "nan observation": obs * np.nan,
        "huge observation": np.array([1e300, 0.0]),
        "short observation": obs[:1],
        "long observation": np.append(obs, obs),
    }
    return seen.get(how, obs), rewards.get(how, reward)


gymnasium.register(NAME, entry_point=Hostile)


@dataclass(frozen=True)
class Peace:
    """What is stored if nothing happens."""

    folder: Path
    tables: dict[str, Any]


def prepare(folder: Path) -> Peace:
    torch.set_num_threads(1)
    list(execute(plan({"row": SPEC}), Store(folder / "peace", "")))
    return Peace(folder, {table: read(folder / "peace", table) for table in TABLES})


def attempt(peace: Peace, number: int, size: int, rng: random.Random) -> Verdict:
    how, lane = rng.choice(RAISES + LIES), rng.randrange(3)
    scoring = rng.random() < 0.5
    seed = episode_seed(lane, rng.randrange(2), 0 if scoring else rng.randrange(3), scoring)
    os.environ[VARIABLE] = json.dumps({"how": how, "seed": seed, "step": rng.randint(1, LENGTH)})
    out = peace.folder / f"run-{number}"
    try:
        store = Store(out, "")
        incidents = [event for _, event in execute(plan({"row": SPEC}), store) if isinstance(event, Incident)]
        assert incidents, "no incident"
        assert {incident.lane for incident in incidents} == {lane}, incidents
        failed = [one["seed"] for one in store.failures()]
        assert failed == ([] if how in RAISES else [SPEC.seeds[lane]]), failed
        compare(peace, out, lane)
    except Exception as error:
        return Verdict(broken=(f"{how}, lane {lane}, {'scoring' if scoring else 'training'}: {error!r}"[:400],))
    finally:
        os.environ.pop(VARIABLE)
        shutil.rmtree(out, ignore_errors=True)
    return Verdict(held=1, notes={"learners recorded as failed": int(how in LIES)})


def episode_seed(lane: int, env: int, episode: int, scoring: bool) -> int:
    """The seed with which an environment begins an episode."""
    stream = Stream.EVALUATE if scoring else Stream.ENVIRONMENT
    world = GymWorld(suite(SPEC.suite, SPEC.seeds), SPEC.envs, stream)
    return reset_seed(world._request(lane * SPEC.envs + env)["seed"], episode)


def compare(peace: Peace, out: Path, lane: int) -> None:
    """The other learners' rows, bit for bit; no NaN in the scores."""
    for table, wanted in peace.tables.items():
        got = read(out, table)
        others, theirs = (np.asarray(columns["seed"]) != SPEC.seeds[lane] for columns in (wanted, got))
        for name, column in wanted.items():
            assert np.array_equal(column[others], got[name][theirs], equal_nan=column.dtype.kind == "f"), (table, name)
    assert np.isfinite(read(out, "scores")["score"]).all()


ATTACKS = (
    Attack(
        "hostile-environments", "Environment raises, or returns NaN, infinity or a wrong shape", "studies", 200, 2,
        attempt, prepare,
    ),
)  # fmt: skip
