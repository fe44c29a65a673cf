"""The progress display."""

import io
import time

import pytest
import torch
from rich.console import Console

from crystalrl.cli.progress import ProgressDisplay, tracked, waiting
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


class Talkative(ProgressDisplay):
    pause = 0.0


def test_without_a_terminal_a_line_is_printed_now_and_then() -> None:
    groups, out = plan({"VR": RunSpec("nav-2", steps=160, seeds=(0, 1))}), io.StringIO()
    with Talkative(groups, Console(file=out, width=120)) as display:
        display.show(0, Scored(1, torch.tensor([[0.5, 0.0], [1.0, 0.0]])))
        display.show(0, Progress(1, 80, 320))
        line = out.getvalue()
    assert line.startswith("VR ×2: 25 %, task 2/2, ")
    assert line.endswith("/s, score 0.75\n")


def test_a_terminal_gets_bars_and_no_such_lines() -> None:
    groups, out = plan({"VR": RunSpec("nav-2", steps=160)}), io.StringIO()
    with Talkative(groups, Console(file=out, width=120, force_terminal=True)) as display:
        display.show(0, Progress(1, 80, 320))
    assert "25 %" not in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_remains_if_there_was_no_event(terminal: bool) -> None:
    groups, out = plan({"VR": RunSpec("nav-2", steps=160)}), io.StringIO()
    with ProgressDisplay(groups, Console(file=out, width=120, force_terminal=terminal)):
        pass
    *_, last = out.getvalue().split("\r")
    assert "VR" not in last


def test_items_are_counted_now_and_then_without_a_terminal() -> None:
    out = io.StringIO()
    assert list(tracked("abc", "Measuring", Console(file=out), pause=0.0)) == ["a", "b", "c"]
    assert out.getvalue().splitlines() == ["Measuring: 0 of 3", "Measuring: 1 of 3", "Measuring: 2 of 3"]
    assert list(tracked("abc", "Measuring", Console(file=out), pause=60.0)) == ["a", "b", "c"]
    assert len(out.getvalue().splitlines()) == 3


def test_items_without_a_length_are_counted_with_the_total_that_is_given() -> None:
    out = io.StringIO()
    assert list(tracked(iter("ab"), "checking", Console(file=out), pause=0.0, total=2)) == ["a", "b"]
    assert out.getvalue().splitlines() == ["checking: 0 of 2", "checking: 1 of 2"]


def test_a_long_step_is_named_before_it_begins() -> None:
    out = io.StringIO()
    with waiting("Drawing charts", Console(file=out, width=120)):
        assert out.getvalue() == "Drawing charts …\n"
    out = io.StringIO()
    with waiting("Drawing charts", Console(file=out, width=120, force_terminal=True)):
        time.sleep(0.3)  # the spinner is drawn by a thread
    assert "Drawing charts" in out.getvalue()
    assert "…" not in out.getvalue()
