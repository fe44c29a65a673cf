"""Tuning: equal budgets, never on reported seeds, every trial stored."""

import json
import sys
from pathlib import Path

import pytest

from crystalrl import cli
from crystalrl.study.definition import load_study
from crystalrl.study.tuning import AT_ONCE, Search, Trials, best, load_search, study_searches, tune, with_best

FILE = """
trials = 6
seeds = "1000:1002"
[defaults]
suite = "nav-1"
steps = 1600
capacity = 400
batch = 32
episodes = 8
points = 1
[rows.VR]
[rows.EWC]
method = "ewc"
[search.VR]
agent_params.learning_rate = [1e-9, 2e-3]
[search.EWC]
method_params.strength = { low = 0.1, high = 10.0, log = true }
agent_params.width = { low = 8, high = 16 }
"""


def search(folder: Path, *changes: tuple[str, str]) -> Search:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "search.toml"
    path.write_text(text)
    return load_search(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1000:1002", "998:1002", r"^seeds: wanted 1000 or more, the others are for reports, got \[998, 999\]"),
        ("[rows.EWC]\n", "[rows.EWC]\nseeds = '0:4'\n", "^seeds: wanted once, at the top"),
        ("trials = 6", "trials = 0", "^trials: wanted a whole number ≥ 1, got 0"),
        ("[search.VR]\nagent_params.learning_rate = [1e-9, 2e-3]", "", "^search.VR: wanted at least one"),
        ("[search.VR]", "[search.VRR]", "^search.VR: wanted at least one"),
        ("low = 0.1", "low = 100.0", "^search.EWC.method_params.strength: wanted a list, or low < high"),
        ("method_params.strength", "method_params.stength", "did you mean 'strength'"),
        ("agent_params.width", "agentparams.width", "^search.EWC: .*did you mean 'agent_params'"),
    ],
)
def test_unfair_or_invalid_searches_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        search(tmp_path, (old, new))


def test_every_row_gets_the_same_trials_and_the_better_setting_is_found_and_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = search(tmp_path)
    begun = tune(wanted, tmp_path / "out", "cpu")
    first = [next(begun) for _ in range(2)]
    begun.close()  # interrupted: the trials drawn together are stored
    assert Trials(tmp_path / "out", wanted).of("VR")[:2] == first
    cli.main(["tune", str(tmp_path / "search.toml"), "--out", str(tmp_path / "out"), "--device", "cpu"])
    said = capsys.readouterr().out
    assert f"VR {AT_ONCE + 1}/6" in said
    assert "VR 1/6" not in said
    stored = json.loads((tmp_path / "out" / "trials.json").read_text())["trials"]
    assert [(trial["row"], trial["number"]) for trial in stored] == [(r, n) for r in ("VR", "EWC") for n in range(6)]
    kept = Trials(tmp_path / "out", wanted)
    rates = {trial.settings["agent_params.learning_rate"] for trial in kept.of("VR")}
    assert rates == {1e-9, 2e-3}
    assert best(kept.of("VR")).settings == {"agent_params.learning_rate": 2e-3}
    for trial in kept.of("EWC"):
        assert 0.1 <= trial.settings["method_params.strength"] <= 10
        assert trial.settings["agent_params.width"] in range(8, 17)
    with pytest.raises(ValueError, match=r"^out: wanted trials of this search, got those of another"):
        list(tune(search(tmp_path, ("steps = 1600", "steps = 800")), tmp_path / "out", "cpu"))


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        ValueError, match=r"^tune: wanted the package optuna, got none: pip install 'crystalrl\[tune\]'"
    ):
        list(tune(search(tmp_path), tmp_path / "out", "cpu"))


STUDY = """
[tables.one]
title = "one"
trials = 3
at_once = 2
tuning_seeds = "1000:1002"
[tables.one.defaults]
suite = "nav-1"
seeds = "0:2"
steps = 160
capacity = 64
batch = 8
episodes = 1
points = 1
warmup = 40
[tables.one.rows.VR]
[tables.one.rows.EWC]
method = "ewc"
[tables.one.search.EWC]
method_params.strength = { low = 0.1, high = 10.0, log = true }
"""


def study(folder: Path, *changes: tuple[str, str]) -> str:
    text = STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "study.toml"
    path.write_text(text)
    return str(path)


def test_a_study_is_searched_on_its_tuning_seeds_and_only_where_it_says_so(tmp_path: Path) -> None:
    (found,) = study_searches(study(tmp_path)).values()
    assert set(found.table.rows) == {"EWC"}
    assert found.table.rows["EWC"].seeds == (1000, 1001)
    assert (found.trials, found.at_once) == (3, 2)


def test_the_rows_of_a_study_get_the_settings_of_their_best_trial(tmp_path: Path) -> None:
    name, out = study(tmp_path), tmp_path / "trials"
    cli.main(["tune", name, "--out", str(out), "--device", "cpu"])
    trials = json.loads((out / "one" / "trials.json").read_text())["trials"]
    assert [trial["row"] for trial in trials] == ["EWC"] * 3
    table = load_study(name)["one"]
    chosen = with_best(table, out / "one")
    top = max(trials, key=lambda trial: trial["value"])
    assert chosen.rows["EWC"].method_params == {"strength": top["settings"]["method_params.strength"]}
    assert chosen.rows["VR"] == table.rows["VR"]
    assert chosen.rows["EWC"].seeds == (0, 1)


def test_a_study_that_cannot_be_tuned_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tuned: wanted trials\.json in .*: run `crystalrl tune` first"):
        with_best(load_study(study(tmp_path))["one"], tmp_path)
    with pytest.raises(ValueError, match=r"tune: wanted a study with \[search\.ROW\], got nav-evidence without"):
        study_searches("nav-evidence")
    with pytest.raises(ValueError, match="search: wanted one of EWC, VR, got 'SI'"):
        study_searches(study(tmp_path, ("search.EWC", "search.SI")))
    with pytest.raises(ValueError, match="at_once: wanted a whole number ≥ 1, got 0"):
        study_searches(study(tmp_path, ("at_once = 2", "at_once = 0")))
