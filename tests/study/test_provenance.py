"""Where and how long runs were computed."""

import json
import re
from pathlib import Path

from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.provenance import FIELDS, Time, commit, read_runs, times, write_run
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store

SMALL = {"suite": "nav-1", "steps": 80, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}


def test_a_run_notes_its_learners_its_time_and_its_machine(tmp_path: Path) -> None:
    groups = plan({"row": RunSpec(seeds=(3, 5), **SMALL)})
    list(execute(groups, Store(tmp_path, "")))
    lines = read_runs(tmp_path)
    assert [(line["cell"], line["seed"], line["learners"], line["steps"]) for line in lines] == [
        ("row", 3, 2, 80),
        ("row", 5, 2, 80),
    ]
    assert tuple(lines[0]) == FIELDS
    assert 0 < lines[0]["seconds"] < 600
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", lines[0]["finished"])
    assert "cores" in lines[0]["machine"]
    assert lines[0]["commit"] == commit()


def test_a_note_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.json").write_text("{broken")
    (tmp_path / "runs" / "b.json").write_text("[1]")
    lanes = [["cell", "row", 1]]
    for k, other in enumerate(({}, {"lanes": 3}, {"lanes": [[1]]}, {"lanes": lanes, "seconds": "soon"})):
        (tmp_path / "runs" / f"other-{k}.json").write_text(json.dumps(other))
    (tmp_path / "runs" / "c.json").write_text(json.dumps({"lanes": lanes}))
    (line,) = read_runs(tmp_path)
    assert line["cell"] == "cell"
    assert line["seconds"] == ""
    assert times(tmp_path) == {}


def test_a_row_has_the_time_of_all_runs_with_its_learners(tmp_path: Path) -> None:
    small = {"suite": "nav-1", "steps": 80, "seeds": (0, 1)}
    (together,) = plan({"a": RunSpec(**small), "b": RunSpec(**small)})
    (alone,) = plan({"b": RunSpec(memory="reservoir", **small)})
    write_run(tmp_path, together, 9.0, "cpu")
    write_run(tmp_path, together, 2.5, "cpu")  # noted again: the later time counts
    write_run(tmp_path, alone, 1.0, "cpu")
    assert times(tmp_path) == {"a": Time(2.5, 4), "b": Time(3.5, 6)}
