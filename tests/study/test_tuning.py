"""Tuning: equal budgets, never on reported seeds, every trial stored."""

import json
import sys
from pathlib import Path

import pytest

from crystalrl import cli
from crystalrl.study.tuning import AT_ONCE, Search, Trials, best, load_search, tune

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
