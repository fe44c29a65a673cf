"""The forecast cost of a study is what it takes."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from crystalrl.memory import CrystalMemory
from crystalrl.study.forecast import Limits, forecast
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer, run
from crystalrl.study.spec import RunSpec


class Clock:
    """Simulated time: each call of these methods takes a fixed number of seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        costs = {(Trainer, "collect"): 1.0, (Trainer, "_learn"): 2.0, (CrystalMemory, "consolidate"): 50.0}
        costs |= {(Trainer, "score_all"): 100.0, (Trainer, "score_current"): 10.0}
        for (owner, name), cost in costs.items():
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name), cost))

    def __call__(self) -> float:
        return self.now

    def counted(self, method: Callable[..., Any], cost: float) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.now += cost
            return method(*given)

        return call


def test_the_hours_are_those_the_run_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here an evaluation takes its time at its start, so the time of one that is stopped is known, too."""
    spec = RunSpec("nav-2", memory="crystal", preset="anchored", seeds=(0, 1), steps=1600, points=2, batch=32)
    (group,) = plan({"row": spec})
    clock = Clock(monkeypatch)
    complete, stopped = (
        forecast(group, "cpu", Limits(iterations=100, seconds=seconds), clock) for seconds in (math.inf, 5.0)
    )
    clock.now = 0.0
    for _ in run(group):
        pass
    assert (complete.at_least, stopped.at_least) == (False, True)
    for expected in (complete, stopped):
        assert expected.steps == 2 * 2 * 1600
        assert expected.hours * 3600 == pytest.approx(clock.now, rel=0.1)
