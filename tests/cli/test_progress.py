"""The progress display."""

import io

import torch
from rich.console import Console

from crystalrl.cli.progress import ProgressDisplay
from crystalrl.study.plan import plan
from crystalrl.study.run import Consolidated, Progress, Scored
from crystalrl.study.spec import RunSpec
from crystalrl.suites.workers import Incident


def test_each_run_has_a_line_with_its_task_its_score_and_its_phases_and_failures_are_warnings() -> None:
    groups = plan({"VR": RunSpec("nav-2", steps=160, seeds=(0, 1)), "PER": RunSpec("nav-2", memory="prioritized")})
    phases = {
        "liquid": torch.tensor([3.0, 5.0]),
        "glass": torch.tensor([2.0, 2.0]),
        "crystal": torch.tensor([0.0, 1.0]),
    }
    out = io.StringIO()
    with ProgressDisplay(groups, Console(file=out, width=120)) as display:
        display.show(0, Scored(0, torch.zeros(2, 2)))
        display.show(0, Incident(1, 0, "task 2", "crashed"))
        display.show(0, Consolidated(0, 80, phases))
        display.show(0, Scored(1, torch.tensor([[0.5, 0.0], [1.0, 0.0]])))
        display.show(0, Progress(1, 320, 320))
    warning, first, second = out.getvalue().splitlines()
    assert warning == "warning lane 1, environment 0, task 2: crashed; restarted, episode truncated"
    for part in ("VR ×2", "task 2/2", "score 0.75", "l4 g2 c0"):
        assert part in first
    assert second.startswith("PER ×1")
