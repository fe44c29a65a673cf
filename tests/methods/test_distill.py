"""Distillation: which outputs are stored, when they pull, and that a rewritten slot forgets them."""

import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec


def trainer() -> Trainer:
    spec = RunSpec("nav-2", memory="reservoir", method="distill", seeds=(0, 1), capacity=96, batch=32, steps=400)
    made = Trainer(plan({"row": spec})[0], torch.device("cpu"))
    made.begin(0)
    for _ in range(12):
        made.collect()
    return made


def test_nothing_pulls_before_the_first_task_has_ended() -> None:
    made = trainer()
    batch = made.method.augment(made.memory.sample(32))
    assert not batch.anchor["q"].coefficient.any()


def test_after_a_task_its_experiences_pull_towards_the_outputs_at_its_end() -> None:
    made = trainer()
    made.end(0)
    batch = made.method.augment(made.memory.sample(32))
    torch.testing.assert_close(batch.anchor["q"].target, made.agent.outputs(batch)["q"])
    assert (batch.anchor["q"].coefficient == 0.1).all()


def test_a_slot_that_is_written_again_no_longer_pulls() -> None:
    made = trainer()
    made.end(0)
    made.begin(1)
    made.collect()
    batch = made.memory.sample(96)
    fresh = batch.context == 1
    pull = made.method.augment(batch).anchor["q"].coefficient
    assert fresh.any()
    assert not pull[fresh].any()
    assert pull[~fresh].all()
