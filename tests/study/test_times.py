"""Times of runs: by row, added up, and none where none were noted."""

from __future__ import annotations

from pathlib import Path

from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.times import Time, note_time, times


def test_a_row_has_the_time_of_all_runs_with_its_learners(tmp_path: Path) -> None:
    small = {"suite": "nav-1", "steps": 80, "seeds": (0, 1)}
    together = plan({"a": RunSpec(**small), "b": RunSpec(**small)})
    (alone,) = plan({"b": RunSpec(memory="reservoir", **small)})
    assert len(together) == 1
    note_time(tmp_path, together[0], 2.5)
    note_time(tmp_path, alone, 1.0)
    assert times(tmp_path) == {"a": Time(2.5, 4), "b": Time(3.5, 6)}


def test_a_run_that_is_noted_again_counts_once(tmp_path: Path) -> None:
    (group,) = plan({"a": RunSpec("nav-1", steps=80)})
    note_time(tmp_path, group, 9.0)
    note_time(tmp_path, group, 2.0)
    assert times(tmp_path) == {"a": Time(2.0, 1)}


def test_without_a_file_there_are_no_times(tmp_path: Path) -> None:
    assert times(tmp_path) == {}
