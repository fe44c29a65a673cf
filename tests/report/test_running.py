"""Runs that are not finished."""

import json
from pathlib import Path

from crystalrl.cli.pages import live_page
from crystalrl.report.html import Page
from crystalrl.report.running import running, running_table
from crystalrl.report.study_page import NONE_FINISHED, write_report
from crystalrl.study.partial import unfinished
from tests.study.test_partial import interrupted


def test_an_unfinished_run_is_listed_and_drawn_with_its_tasks_and_scores_so_far(tmp_path: Path) -> None:
    assert running(Page(), tmp_path) == ""
    interrupted(tmp_path, after=1)
    (run,) = unfinished(tmp_path)
    (line,) = running_table([run], run.saved + 5.0).lines
    assert line[:3] == ["crystal", "2", "1"]
    assert float(line[3]) == round(float(run.so_far("crystal").mean()), 3)
    assert line[4] == "5 s ago"
    made = Page()
    assert ">Running</h2>" in running(made, tmp_path)
    assert made.charts[0].options["own"]  # a legend: nothing else on this page names the colours
    frame = made.charts[0].frame()
    assert frame[frame["seed"] < 0]["y"].tolist() == [run.so_far("crystal").mean()]
    page = write_report([tmp_path], tmp_path / "report.html").read_text()
    assert ">Running</h2>" in page
    assert NONE_FINISHED in page
    assert "found none" not in page
    assert 'href="spec.toml"' in page
    assert "href=" not in live_page([tmp_path], "/events")  # only the page itself is served


def test_failures_are_told_and_escaped(tmp_path: Path) -> None:
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "a.json").write_text(json.dumps([{"cell": "a", "seed": 0, "what": "<b>: wanted"}]))
    (tmp_path / "failures" / "b.json").write_text("{broken")
    assert running(Page(), tmp_path) == '<p class="message">failed: &lt;b&gt;: wanted</p>'
