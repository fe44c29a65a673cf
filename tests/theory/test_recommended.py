"""Memories recommended for tasks: what is predicted is what a running memory keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.theory import Recommended, Tasks, recommend

EVEN = {"w1": 1.0, "w2": 0.0, "w3": 0.0, "interference": "none"}
"""Settings that make the utility the scaled |δ|; 95 % of those stored are below the largest."""
ENVS = 5


def crystals_by_task(needs: Tasks, plan: Recommended, **changes: object) -> np.ndarray:
    """How many crystals of each task a memory holds after all of them; |δ| is even over [0, 1]."""
    params = CrystalParams(**{"time_unit": plan.time_unit, **EVEN, **changes})
    memory = CrystalMemory(needs.slots, obs=(1,), action=2, params=params, envs=ENVS)
    random = torch.Generator().manual_seed(0)
    no, action = torch.zeros(ENVS, dtype=torch.bool), torch.zeros(ENVS, dtype=torch.int64)
    for _ in range(needs.task * needs.tasks // ENVS):
        obs = torch.rand(ENVS, 1, generator=random)
        memory.add(Transition(obs, action, obs[:, 0], obs, no, no))
        if memory.due:
            memory.consolidate(lambda batch: batch.obs[..., 0])
    held = memory.experiences("crystal")["number"]
    return np.bincount(np.asarray(held) // needs.task, minlength=needs.tasks)


@pytest.mark.parametrize(
    "needs",
    [Tasks(slots=400, task=1500, tasks=4, crystals=30), Tasks(slots=900, task=500, tasks=4, crystals=30)],
    ids=["a small memory: only the best crystallize", "short tasks: a shorter unit of time"],
)
def test_as_many_crystals_of_each_task_remain_as_predicted(needs: Tasks) -> None:
    plan = recommend(needs)
    counts = crystals_by_task(needs, plan)
    assert plan.notes == ()
    assert counts[:-1].mean() == pytest.approx(plan.remaining, rel=0.15)
    assert counts[-1] == pytest.approx(plan.remaining_of_last, rel=0.35)
    assert counts.min() >= needs.crystals


def test_the_shipped_unit_of_time_is_kept_where_crystals_form_in_time() -> None:
    plan = recommend(Tasks())
    assert plan.params == CrystalParams(time_unit=2000)
    assert plan.steps_to_crystal <= 100_000
    assert plan.remaining == pytest.approx(50_000 / 10, rel=0.02)
    assert plan.notes == ()


def test_a_shorter_unit_of_time_is_chosen_for_short_tasks() -> None:
    shipped, short = recommend(Tasks(slots=2000, task=20_000)), recommend(Tasks(slots=2000, task=2000))
    assert (shipped.time_unit, short.time_unit) == (200, 98)
    assert short.steps_to_crystal <= 1000 < shipped.steps_to_crystal
    assert short.params == CrystalParams(time_unit=98)


def test_the_melting_rate_follows_from_the_time_that_a_contradiction_may_take() -> None:
    """c falls as e^(−μt): μ = −ln(.65)/n for n consolidations."""
    plan = recommend(Tasks(slots=2000, task=20_000, melts_within=1000))
    assert plan.params.melt == pytest.approx(-math.log(0.65) / 5, rel=1e-4)
    assert plan.melting == 1000
    assert recommend(Tasks(slots=2000, task=20_000)).melting == 200


def test_requirements_that_cannot_be_met_are_named_with_what_would_help() -> None:
    few = recommend(Tasks(slots=800, task=20_000, tasks=16, crystals=50)).notes
    assert few == ("25 crystals remain per task, 50 are required: use 1,600 slots",)
    assert recommend(Tasks(slots=1600, task=20_000, tasks=16, crystals=50)).notes == ()
    slow = recommend(Tasks(slots=2000, task=20_000, melts_within=100)).notes
    assert slow == ("melting takes a consolidation, 200 steps: set `every` to 100",)
    large = recommend(Tasks(slots=1_000_000, task=1_000_000))
    assert large.notes == ("41% of the slots stay empty, since nearly all crystallize: a longer time_unit helps",)
    assert recommend(Tasks(slots=1_000_000, task=1_000_000), time_unit=40_000).notes == ()
    late = recommend(Tasks(slots=2000, task=100, crystals=1)).notes
    assert late[0].startswith("crystals form after")
    none = recommend(Tasks(slots=100, task=2000, tasks=2, crystals=1), every=400, time_unit=400).notes
    assert none[0] == "no crystal forms: experiences are overwritten before they become glass; use more slots"
    with pytest.raises(ValueError, match="tasks: wanted a number > 0"):
        Tasks(tasks=0)


def test_where_no_crystal_is_predicted_none_forms() -> None:
    needs = Tasks(slots=100, task=2000, tasks=2, crystals=1)
    plan = recommend(needs, every=400, time_unit=400)
    assert plan.remaining == 0
    assert crystals_by_task(needs, plan, every=400).sum() == 0
