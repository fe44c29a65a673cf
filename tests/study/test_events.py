"""A run that may pause says so, and is otherwise the same."""

import torch

from crystalrl.study.events import Progress, Scored, Waiting
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer, run
from crystalrl.study.spec import RunSpec

SPEC = RunSpec("cartpole-2", steps=80, capacity=64, batch=16, warmup=16, episodes=1, points=1)


def test_a_run_that_pauses_waits_once_in_every_step_and_ends_with_the_same_scores() -> None:
    (group,) = plan({"row": SPEC})
    plain = list(run(group))
    trainer = Trainer(group, torch.device("cpu"))
    trainer.pauses = True
    pausing = list(run(group, trainer=trainer))
    assert not any(isinstance(event, Waiting) for event in plain)
    others = [event for event in pausing if not isinstance(event, Waiting)]
    assert [type(event) for event in others] == [type(event) for event in plain]
    assert len(pausing) - len(plain) == sum(isinstance(event, Progress) for event in plain) == 20
    scores = [[event.score for event in events if isinstance(event, Scored)] for events in (plain, others)]
    assert all(torch.equal(a, b) for a, b in zip(*scores, strict=True))
