"""Every row of the built-in ladders learns, consolidates and ends a task, with the real environments."""

from dataclasses import replace

import pytest
import torch

from crystalrl.study.definition import load_study
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer

CHANGES = {"seeds": (0,), "capacity": 80, "budget_mb": 0.0, "batch": 16, "warmup": 0, "random_steps": 16, "orders": 1}
ROWS = [
    (name, table, row)
    for name in ("ladder/mw", "ladder/mujoco", "ladder/atari")
    for table, rows in load_study(name).items()
    for row in rows.rows
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "table", "row"), ROWS, ids=str)
def test_a_row_learns_consolidates_and_ends_a_task(name: str, table: str, row: str) -> None:
    spec = load_study(name)[table].rows[row]
    group, *_ = plan({row: replace(spec, **CHANGES)})
    trainer = Trainer(group, torch.device("cpu"))
    before = trainer.agent.theta.detach().clone()
    trainer.begin(0)
    for _ in range(128 // spec.envs):
        trainer.advance(0)
    trainer.advance(1)
    trainer.memory.consolidate(trainer.agent.evaluate)
    trainer.advance(1)
    trainer.end(0)
    assert torch.isfinite(trainer.agent.theta).all()
    assert not torch.equal(trainer.agent.theta, before)
    assert list(trainer.incidents()) == []
    trainer.memory.check()
