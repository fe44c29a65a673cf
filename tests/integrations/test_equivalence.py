"""With c ≡ 0, no gate and no anchors, SAC and TD3 learn as with SB3's own buffer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.learning import difference
from benchmarks.sb3_equivalence import ALGORITHMS, BUFFERS, TASKS, run

STORED = Path(__file__).parents[2] / "benchmarks" / "results" / "sb3_pendulum.json"


def equivalent(runs: list[dict[str, Any]], algorithm: str) -> None:
    found = difference(runs, algorithm)
    assert abs(found["difference"]) < found["stock_half_interval"], found  # within the interval of stock's own seeds
    assert found["ours"] > -400, found  # a policy that does nothing has −1,200


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_the_stored_runs_on_pendulum_are_complete_and_equivalent(algorithm: str) -> None:
    runs = json.loads(STORED.read_text())
    wanted = {(buffer, seed) for buffer in BUFFERS for seed in range(TASKS["pendulum"].seeds)}
    assert {(r["buffer"], r["seed"]) for r in runs if r["algorithm"] == algorithm} == wanted
    equivalent(runs, algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_pendulum_is_learnt_equally_well(algorithm: str) -> None:
    task = TASKS["pendulum"]
    equivalent([run(task, algorithm, buffer, seed) for buffer in BUFFERS for seed in range(task.seeds)], algorithm)
