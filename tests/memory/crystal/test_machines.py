"""Random operations on a crystal memory and on its twin: after each of them the two hold, draw and say the same."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test as run_machine

from crystalrl import CrystalMemory, CrystalParams
from tests.conftest import computing_with
from tests.memory.crystal.machine import Machine
from tests.memory.crystal.rounding import rounded_by

FAST = {"sigma": 0.1, "Z": 5.0, "k": 3}
CASES: dict[str, CrystalParams] = {
    "paper": CrystalParams.paper(**FAST, alpha=0.5, beta=0.3, tau_evict=2, epsilon=1.6, every=12),
    "paper, scaled": CrystalParams.paper(
        **FAST,
        alpha=0.4,
        beta=0.3,
        epsilon=1.6,
        delta_t=0.5,
        w1=0.7,
        spare=0.2,
        scale="q95",
        importance="phase",
        raw_distance=False,
        novelty="grid",
    ),
    "anchored": CrystalParams.anchored(**FAST, alpha=0.6, time_unit=6, epsilon=1.2, delta_r=0.7, gate=3.0),
    "default": CrystalParams.repaired(
        **FAST, alpha=0.4, beta=0.3, time_unit=6, every=10, tau_evict=2, epsilon=1.5, leak=0.01
    ),
    "automatic scales": CrystalParams.anchored(**FAST, alpha=0.6, time_unit=6, is_steps=40),
    "slices": CrystalParams.repaired(**FAST, alpha=0.3, beta=0.2, time_unit=6, slices=3, epsilon=1.5, settle=0.5),
    "slices by call": CrystalParams.paper(**FAST, alpha=0.2, beta=0.1, slices=2, every_episode=False),
    "novelty by neighbours": CrystalParams.anchored(**FAST, alpha=0.6, time_unit=6, epsilon=1.2, novelty="knn"),
    "one buffer": CrystalParams.repaired(**FAST, alpha=0.4, time_unit=6, phases=False, downstream="random"),
    "anchored, warm backup": CrystalParams.anchored(**FAST, alpha=0.6, time_unit=6, epsilon=1.2, warm=True, sweeps=2),
    "anchored, random value": CrystalParams.anchored(**FAST, alpha=0.6, time_unit=6, epsilon=1.2, downstream="random"),
}


def run(
    case: str, lanes: int | None, envs: int = 1, n_step: int = 1, examples: int = 8, per_lane: bool = False
) -> None:
    fields = {"params": CASES[case], "lanes": lanes, "envs": envs, "n_step": n_step, "per_lane": per_lane}
    machine = type("M", (Machine,), fields)
    run_machine(machine, settings=settings(max_examples=examples, stateful_step_count=20))


@pytest.mark.parametrize("lanes", [None, 1, 3])
@pytest.mark.parametrize("case", ["paper", "anchored", "default"])
def test_memory_agrees_with_its_twin_after_every_operation(case: str, lanes: int | None) -> None:
    run(case, lanes)


@pytest.mark.parametrize(
    "case",
    [
        "automatic scales", "novelty by neighbours", "slices", "slices by call", "one buffer", "anchored, random value",
        "anchored, warm backup", "paper, scaled",
    ],
)  # fmt: skip
def test_other_choices_agree_with_their_twin_too(case: str) -> None:
    run(case, None)


@pytest.mark.parametrize("case", ["paper", "anchored"])
def test_parallel_environments_and_several_steps_agree_with_the_twin(case: str) -> None:
    run(case, 3, envs=2, n_step=3, examples=4)


@pytest.mark.parametrize("case", ["paper", "anchored", "default"])
def test_lanes_with_their_own_rates_agree_with_their_twins(case: str) -> None:
    run(case, 3, examples=5, per_lane=True)


def test_without_numba_memory_agrees_with_its_twin_too() -> None:
    with computing_with("numpy"):
        run("anchored", None, envs=2, examples=4)
        run("paper", 3, examples=4)


@pytest.mark.parametrize(("column", "change"), [("utility", 3e-6), ("c", 3e-4)])
def test_a_twin_goes_on_from_the_numbers_of_a_memory_only_if_they_are_its_own(column: str, change: float) -> None:
    """c of a Beta step is bounded relative to c, so that 0 is not taken for a tiny number."""
    ledger = CrystalMemory(4, obs=(1,), action=2, params=CASES["default"]).ledger
    values = getattr(ledger, column)
    values[0] = torch.tensor([0.5, 0.5 * (1 + 2**-23), 0.5 * (1 + change), 0.0])
    rounded = rounded_by(ledger, 0)
    assert [rounded(column, slot, 0.5) for slot in (0, 1)] == [0.5, 0.5 * (1 + 2**-23)]
    for slot in (2, 3):
        with pytest.raises(AssertionError, match=f"{column} of slot {slot}: wanted 0.5"):
            rounded(column, slot, 0.5)
    with pytest.raises(AssertionError, match="wanted 1e-13"):
        rounded_by(ledger, 0)("c", 3, 1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [None, 1, 3])
@pytest.mark.parametrize("case", list(CASES))
def test_memory_agrees_with_its_twin_over_many_more_runs(case: str, lanes: int | None) -> None:
    run(case, lanes, envs=2, n_step=2, examples=60)
