"""The study of baselines: every row runs, and every baseline is searched with the same number of trials."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crystalrl.study.definition import load_study
from crystalrl.study.kinds import METHODS
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec
from crystalrl.study.tuning import study_searches
from tests.methods.runs import play

TABLES = load_study("baselines")
ROWS = [(table, row) for table in TABLES for row in TABLES[table].rows]
FAST = [("nav-10", "ClonEx"), ("nav-10", "NEC"), ("reach-8", "RECALL"), ("goals", "HER, future")]
REFERENCES = {"default", "paper", "one agent per task"}


def tiny(spec: RunSpec) -> RunSpec:
    """The row with one seed and small batches, on the same tasks."""
    method = dict(spec.method_params)
    method |= {name: 8 for name in ("size", "explore") if name in method}
    return replace(spec, seeds=(0,), capacity=160, batch=8, episodes=1, method_params=method)


@pytest.mark.parametrize(
    ("table", "row"), [case if case in FAST else pytest.param(*case, marks=pytest.mark.slow) for case in ROWS]
)
def test_every_row_runs(table: str, row: str) -> None:
    (group, *_) = plan({row: tiny(TABLES[table].rows[row])})
    trainer = Trainer(group, torch.device("cpu"))
    for stage in range(min(2, trainer.schedule.shape[1])):
        trainer.begin(stage)
        before = trainer.agent.theta.detach().clone()
        play(trainer, 16, idle=12)  # ten steps make one experience of NEC's returns
        trainer.end(stage)
        assert not torch.equal(trainer.agent.theta, before)
    assert torch.isfinite(trainer.agent.theta).all()


def test_every_baseline_is_searched_with_the_same_number_of_trials_and_ours_keeps_its_defaults() -> None:
    for key, search in study_searches("baselines").items():
        assert search.trials == 8
        assert set(TABLES[key].rows) - set(search.spaces) <= REFERENCES
        assert all(seed >= 1000 for spec in search.table.rows.values() for seed in spec.seeds)


def test_every_method_has_a_row() -> None:
    used = {spec.method for table in TABLES.values() for spec in table.rows.values()}
    assert used == set(METHODS)


def test_there_are_twenty_seeds_or_ten_for_the_games() -> None:
    for key, table in TABLES.items():
        assert {len(spec.seeds) for spec in table.rows.values()} == {10 if key == "minatar-5" else 20}
