"""Tuning that processes share: the same trials as in one process, each once, and a study that uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crystalrl import cli
from crystalrl.study.__main__ import main as run_study
from crystalrl.study.definition import load_study
from crystalrl.study.search import left, main, row_jobs
from crystalrl.study.store import read
from crystalrl.study.tuning import study_searches, with_best
from tests.study.test_tuning import STUDY

MORE = STUDY.replace("[tables.one.rows.VR]", "[tables.one.rows.VR]\n[tables.one.rows.PER]\nmemory = 'prioritized'") + (
    "[tables.one.search.PER]\nparams.alpha = { low = 0.2, high = 1.0 }\n"
)


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "study.toml"
    path.write_text(MORE)
    return str(path)


def trials(folder: Path) -> list[dict[str, object]]:
    found = [trial for path in folder.rglob("trials.json") for trial in json.loads(path.read_text())["trials"]]
    return sorted(found, key=lambda trial: (trial["row"], trial["number"]))


def test_every_row_with_a_search_is_a_job_in_a_folder_of_its_own(study: str, tmp_path: Path) -> None:
    jobs = row_jobs(study_searches(study), tmp_path)
    assert left(jobs) == ["one: EWC", "one: PER"]
    assert [folder for *_, folder in jobs] == [tmp_path / "one" / "EWC", tmp_path / "one" / "PER"]
    assert [set(search.table.rows) for _, search, _ in jobs] == [{"EWC"}, {"PER"}]


@pytest.mark.slow
def test_two_shares_make_the_trials_of_one_process_and_the_study_uses_the_best(study: str, tmp_path: Path) -> None:
    jobs = row_jobs(study_searches(study), tmp_path / "shared")
    for share in ("1/2", "2/2"):
        main([study, "--out", str(tmp_path / "shared"), "--share", share, "--device", "cpu"])
        assert len(left(jobs)) == 2 - int(share[0])
    cli.main(["tune", study, "--out", str(tmp_path / "alone"), "--device", "cpu"])
    assert trials(tmp_path / "shared") == trials(tmp_path / "alone")
    table = load_study(study)["one"]
    chosen = with_best(table, tmp_path / "shared" / "one")
    assert chosen == with_best(table, tmp_path / "alone" / "one") != table
    tuned = ["--tuned", str(tmp_path / "shared"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    run_study([study, *tuned])
    assert set(read(tmp_path / "out" / "one", "scores")["method"]) == {"VR", "PER", "EWC"}
    stored = (tmp_path / "out" / "one" / "spec.toml").read_text()
    assert repr(chosen.rows["PER"].params["alpha"]) in stored


def test_after_the_time_limit_no_row_is_tuned(study: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0 minutes are over: start again to continue"):
        main([study, "--out", str(tmp_path / "out"), "--minutes", "0", "--device", "cpu"])
    assert trials(tmp_path / "out") == []


def test_an_unknown_study_is_one_line_with_status_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["baslines", "--out", str(tmp_path)])
    assert raised.value.code == 2
    assert "did you mean 'baselines'" in capsys.readouterr().err
