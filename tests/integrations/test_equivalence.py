"""With c ≡ 0, no gate and no anchors, SAC and TD3 learn as with SB3's own buffer."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.harness.results import load
from benchmarks.libraries.equivalence import ALGORITHMS, BUFFERS, TASKS, keys, run
from benchmarks.libraries.learning import Runs, compare, difference

LEAST = {"pendulum": -400, "halfcheetah": 3000}
"""A policy that does nothing has −1,200, and 0."""


def equivalent(runs: Runs, task: str, algorithm: str) -> None:
    found = difference(runs, algorithm)
    assert abs(found["difference"]) < found["stock_half_interval"], found  # within the interval of stock's own seeds
    assert found["ours"] > LEAST[task], found


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_stored_runs_are_complete_and_equivalent(task: str, algorithm: str) -> None:
    stored = load(f"sb3_{task}")
    wanted = {(buffer, seed) for buffer in BUFFERS for seed in range(TASKS[task].seeds)}
    assert {(r["buffer"], r["seed"]) for r in stored if r["algorithm"] == algorithm} == wanted
    equivalent(stored, task, algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pendulum_is_learnt_equally_well(algorithm: str) -> None:
    task = TASKS["pendulum"]
    *_, runs = compare(None, keys(task.seeds, (algorithm,)), partial(run, task))
    equivalent(runs, "pendulum", algorithm)
