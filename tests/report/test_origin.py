"""What was run, where and when."""

import json
from pathlib import Path

from crystalrl.report import origin
from crystalrl.study.analysis import load_results
from crystalrl.study.plan import plan
from crystalrl.study.provenance import write_run
from crystalrl.study.store import Store
from tests.made_up_results import columns


def test_settings_that_differ_are_a_table_and_the_rest_is_shared(folder: Path) -> None:
    shared, varied = origin.settings(load_results(folder))
    assert dict(shared)["capacity"] == "1,000"
    assert dict(shared)["seeds"] == "0–2"
    assert varied.headings == ["", "memory", "preset", "method", "settings"]
    assert varied.lines[0][-1] == ""
    assert varied.lines[1] == ["EWC strength=10.0", "uniform", "", "ewc", "method_params.strength = 1.0, 10.0"]


def test_seeds_are_ranges() -> None:
    assert origin.ranges((3, 0, 1, 2, 7)) == "0–3, 7"
    assert origin.ranges((5,)) == "5"


def test_old_results_say_what_was_not_recorded(folder: Path) -> None:
    found = origin.versions(folder)
    assert found["commit"] == found["machine"] == found["date"] == "not recorded"
    assert found["crystalrl"] != "not recorded"
    grid = origin.cost_table(load_results(folder), folder)
    assert grid.lines[0] == ["anchored", "2.000", *["not recorded"] * 3]
    (folder / "versions.json").write_text("{broken")
    assert origin.versions(folder)["crystalrl"] == "not recorded"


def test_time_is_that_of_the_noted_runs_shared_among_their_learners(folder: Path) -> None:
    results = load_results(folder)
    (group,) = plan({"anchored": results.rows[0].spec})
    write_run(folder, group, 12.0, "cpu")
    line = origin.cost_table(results, folder).lines[0]
    assert line == ["anchored", "2.000", "12.0", f"{12e6 / (3 * group.steps):,.1f}", "3"]
    assert origin.versions(folder)["date"][:2] == "20"
    assert "recorded for" not in origin.versions(folder)
    Store(folder, (folder / "spec.toml").read_text()).write("other", columns(0.5, seed=2000), "cpu")
    assert origin.versions(folder)["recorded for"] == "1 of 2 runs: commit, machine, date"
    noted = json.loads((folder / "runs" / f"{group.key}.json").read_text())
    assert f"version = {{{noted['crystalrl']}}}" in origin.bibtex(origin.versions(folder))
