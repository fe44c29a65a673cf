"""With c ≡ 0, no gate and no anchors, SAC and TD3 learn as with SB3's own buffer."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks.libraries.equivalence import ALGORITHMS, BUFFERS, TASKS, keys, run
from benchmarks.libraries.learning import Runs, compare, difference

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
LEAST = {"pendulum": -400, "halfcheetah": 3000}
"""Scores that a run must exceed; a policy that does nothing scores −1,200 and 0."""


def equivalent(runs: Runs, task: str, algorithm: str) -> None:
    found = difference(runs, algorithm)
    assert abs(found["difference"]) < found["stock_half_interval"], found  # SB3's own confidence interval
    assert found["ours"] > LEAST[task], found


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_the_stored_runs_are_complete_and_equivalent(task: str, algorithm: str) -> None:
    stored = json.loads((RESULTS / f"sb3_{task}.json").read_text())
    wanted = {(buffer, seed) for buffer in BUFFERS for seed in range(TASKS[task].seeds)}
    assert {(r["buffer"], r["seed"]) for r in stored if r["algorithm"] == algorithm} == wanted
    equivalent(stored, task, algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_pendulum_is_learnt_equally_well(algorithm: str) -> None:
    task = TASKS["pendulum"]
    *_, runs = compare(None, keys(task.seeds, (algorithm,)), partial(run, task))
    equivalent(runs, "pendulum", algorithm)
