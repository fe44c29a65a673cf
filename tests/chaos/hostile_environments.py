"""Environments that raise, lie, hang or end their process in the middle of a study: only their own learner suffers.

A unit is a study of three learners. One environment of one of them misbehaves once, while training or while scoring.
The tables of the others must be those of a study in which nothing happened, bit for bit. Where a worker process ends,
the learners that have an environment in the same worker lose its episode, and nothing else.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
from tests.chaos.hostile import ENDS, LENGTH, LIES, NAME, RAISES, VARIABLE

SPEC = RunSpec(
    f"gym:{NAME}", memory="crystal", preset="anchored", seeds=(0, 1, 2), steps=200, capacity=64, batch=16, episodes=2,
    points=1, envs=2, agent_params={"width": 16},
)  # fmt: skip
ENVIRONMENTS = 2
"""Of each learner, while training and while scoring."""
WORKERS = "CRYSTALRL_WORKERS"
HANGS = 12
"""One in this many studies with worker processes has an environment that hangs: the library waits a minute for it."""


@dataclass(frozen=True)
class Peace:
    """What is stored if nothing happens."""

    folder: Path
    tables: dict[str, Any]


def prepare(folder: Path) -> Peace:
    torch.set_num_threads(1)
    list(execute(plan({"row": SPEC}), Store(folder / "peace", "")))
    return Peace(folder, {table: read(folder / "peace", table) for table in TABLES})


@dataclass(frozen=True)
class Trouble:
    """What an environment does, and where."""

    how: str
    lane: int
    env: int
    scoring: bool
    workers: int

    @property
    def neighbours(self) -> set[int]:
        """Lanes that have an environment in the same worker process, if that ends; otherwise this lane only."""
        if self.how not in ENDS:
            return {self.lane}
        row, rows = self.lane * ENVIRONMENTS + self.env, len(SPEC.seeds) * ENVIRONMENTS
        return {other // ENVIRONMENTS for other in range(row % self.workers, rows, self.workers)}

    def order(self, rng: random.Random) -> str:
        """For the environment variable."""
        seed = episode_seed(self.lane, self.env, 0 if self.scoring else rng.randrange(3), self.scoring)
        return json.dumps({"how": self.how, "seed": seed, "step": rng.randint(1, LENGTH)})


def alone(number: int, rng: random.Random) -> Trouble:
    """In this process."""
    return Trouble(rng.choice(RAISES + LIES), rng.randrange(3), rng.randrange(2), rng.random() < 0.5, 0)


def in_worker(number: int, rng: random.Random) -> Trouble:
    """In one of three worker processes, which lanes share, or in a worker process of its own."""
    lane, env, workers = rng.randrange(3), rng.randrange(2), rng.choice((3, 6))
    if number % HANGS == HANGS - 1:
        return Trouble("hang", lane, env, False, workers)  # scoring repeats its episodes, and the hang, every time
    return Trouble(rng.choice(RAISES + LIES + ENDS[:2] * 2), lane, env, rng.random() < 0.5, workers)


def attempt(draw: Any, peace: Peace, number: int, size: int, rng: random.Random) -> Verdict:
    trouble, out = draw(number, rng), peace.folder / f"run-{number}"
    os.environ |= {VARIABLE: trouble.order(rng), WORKERS: str(trouble.workers)}
    try:
        store = Store(out, "")
        incidents = [event for _, event in execute(plan({"row": SPEC}), store) if isinstance(event, Incident)]
        assert {(incident.lane, incident.env) for incident in incidents} == {(trouble.lane, trouble.env)}, incidents
        failed = [one["seed"] for one in store.failures()]
        assert failed == ([SPEC.seeds[trouble.lane]] if trouble.how in LIES else []), failed
        compare(peace, out, trouble.neighbours)
    except Exception as error:
        return Verdict(broken=(f"{trouble}: {error!r}"[:400],))
    finally:
        del os.environ[VARIABLE], os.environ[WORKERS]
        shutil.rmtree(out, ignore_errors=True)
    return Verdict(held=1, notes={"learners recorded as failed": int(trouble.how in LIES), trouble.how: 1})


def episode_seed(lane: int, env: int, episode: int, scoring: bool) -> int:
    """The seed with which an environment begins an episode."""
    stream = Stream.EVALUATE if scoring else Stream.ENVIRONMENT
    world = GymWorld(suite(SPEC.suite, SPEC.seeds), SPEC.envs, stream)
    return reset_seed(world._request(lane * SPEC.envs + env)["seed"], episode)


def compare(peace: Peace, out: Path, lanes: set[int]) -> None:
    """The rows of the learners that are not in `lanes`, bit for bit; no NaN in the scores."""
    touched = [SPEC.seeds[lane] for lane in lanes]
    for table, wanted in peace.tables.items():
        got = read(out, table)
        others, theirs = (~np.isin(columns["seed"], touched) for columns in (wanted, got))
        for name, column in wanted.items():
            assert np.array_equal(column[others], got[name][theirs], equal_nan=column.dtype.kind == "f"), (table, name)
    assert np.isfinite(read(out, "scores")["score"]).all()


ATTACKS = (
    Attack(
        "hostile-environments", "Environment raises, or returns NaN, infinity or a wrong shape", "studies", 200, 2,
        partial(attempt, alone), prepare,
    ),
    Attack(
        "hostile-workers", "The same in a worker process, or the environment hangs or ends its process", "studies",
        120, 2, partial(attempt, in_worker), prepare, smoke=False,
    ),
)  # fmt: skip
