"""What a study will cost, before it is run."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crystalrl import cli
from crystalrl.memory import CrystalMemory
from crystalrl.study import forecast as forecast_module
from crystalrl.study.plan import plan
from crystalrl.study.run import Learner, run
from crystalrl.study.spec import RunSpec

STUDY = """
[defaults]
suite = "nav-2"
steps = 160
capacity = 64
batch = 16
episodes = 2
points = 1
[rows.VR]
seeds = "0:3"
[rows.EWC]
method = "ewc"
orders = 2
method_params.strength = [1.0, 10.0]
"""


class Clock:
    """Time that passes only where something is done: so many seconds for each call of a method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        costs = {(Learner, "collect"): 1.0, (Learner, "_learn"): 2.0, (CrystalMemory, "consolidate"): 50.0}
        costs |= {(Learner, "score_all"): 100.0, (Learner, "score_current"): 10.0}
        for (owner, name), cost in costs.items():
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name), cost))
        monkeypatch.setattr(forecast_module, "_now", lambda learner: self.now)

    def counted(self, method: Callable[..., Any], cost: float) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.now += cost
            return method(*given)

        return call


@pytest.mark.parametrize("seconds", [math.inf, 5.0], ids=["at leisure", "cut short"])
def test_the_hours_are_those_the_run_takes(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a test takes its time when it begins, so that one which is cut short is known, too."""
    monkeypatch.setattr(forecast_module, "SECONDS", seconds)
    spec = RunSpec("nav-2", memory="crystal", preset="anchored", seeds=(0, 1), steps=1600, points=2, batch=32)
    (group,) = plan({"row": spec})
    clock = Clock(monkeypatch)
    said = forecast_module.forecast(group, "cpu", iterations=100)
    clock.now = 0.0
    for _ in run(group):
        pass
    assert said.steps == 2 * 2 * 1600
    assert said.at_least == (seconds < math.inf)
    assert said.hours * 3600 == pytest.approx(clock.now, rel=0.1)


def test_a_dry_run_counts_what_is_left_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(STUDY)
    cli.main(["study", "small.toml", "--dry-run", "--device", "cpu"])
    assert "To do: 5 cells, 2,240 environment steps, 0.0" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]
    cli.main(["study", "small.toml", "--device", "cpu"])
    (tmp_path / "runs" / "small" / "scores.parquet").rename(tmp_path / "kept")
    (tmp_path / "runs" / "small" / "scores.parquet").mkdir()
    first, _ = sorted((tmp_path / "kept").iterdir(), key=lambda path: path.stat().st_mtime)
    first.rename(tmp_path / "runs" / "small" / "scores.parquet" / first.name)
    capsys.readouterr()
    cli.main(["study", "small.toml", "--dry-run", "--device", "cpu"])
    assert "To do: 4 cells, 1,280 environment steps" in capsys.readouterr().out
