"""Studies with only PyTorch and NumPy installed, and their files on other machines."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crystalrl import cli
from crystalrl.study.__main__ import main
from crystalrl.study.run import Trainer
from crystalrl.study.store import TABLES, read
from crystalrl.suites.classic import suite
from tests.suites.bad_environments import HOSTILE, first_seeds

STUDY = """
tuning_seeds = "1000:1002"
[defaults]
suite = "nav-2-redefined"
steps = 160
capacity = 128
seeds = "0:2"
batch = 16
episodes = 2
points = 1
[rows.anchored]
memory = "crystal"
preset = "anchored"
[rows.EWC]
method = "ewc"
method_params.strength = [1.0, 10.0]
"""

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from crystalrl.study.__main__ import main
main({arguments!r})
"""
MISSING = ("tyro", "rich", "scipy", "gymnasium", "matplotlib", "safetensors", "numba", "pyarrow", "pandas")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


def test_a_study_needs_only_torch_and_numpy_and_its_parts_combine_with_those_of_another_machine(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(study), "--out", str(tmp_path / "out"), "--device", "cpu"]
    script = WITHOUT.format(names=MISSING, arguments=[*arguments, "--share", "1/2"])
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    stored = [path for path in (tmp_path / "out").glob("*.parquet/*") if path.parent.stem in TABLES]
    assert [path.suffix for path in stored] == [".npz"] * 3
    main(arguments)
    said = capsys.readouterr().out
    assert said.count("task 1") == 1
    assert not said.startswith(":")  # a study of one table has no name to print
    cli.main(["report", str(tmp_path / "out")])
    stored = [path for path in (tmp_path / "out").glob("*.parquet/*") if path.parent.stem in TABLES]
    assert [path.suffix for path in stored] == [".parquet"] * 6
    main([str(study), "--out", str(tmp_path / "here"), "--device", "cpu"])
    for table in TABLES:
        here, joined = read(tmp_path / "here", table), read(tmp_path / "out", table)
        for name in here:
            np.testing.assert_array_equal(joined[name], here[name])


def test_only_the_packages_of_the_chosen_tables_are_needed(study: Path, tmp_path: Path) -> None:
    two = study.read_text().replace("[defaults]", "[tables.one.defaults]").replace("[rows", "[tables.one.rows")
    two = two.replace("tuning_seeds", "tables.one.tuning_seeds")
    study.write_text(two + '[tables.two.rows.plain]\nsuite = "gym:CartPole-v1"\nsteps = 160\n')
    arguments = [str(study), "--out", str(tmp_path / "out"), "--device", "cpu"]
    all_tables = WITHOUT.format(names=MISSING, arguments=arguments)
    refused = subprocess.run([sys.executable, "-c", all_tables], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "pip install gymnasium" in refused.stderr
    script = WITHOUT.format(names=MISSING, arguments=[*arguments, "--tables", "one", "--minutes", "-1"])
    chosen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "2 runs are left" in chosen.stderr


def test_the_list_of_studies_needs_none_of_their_packages() -> None:
    script = WITHOUT.format(names=("gymnasium",), arguments=[]).replace("crystalrl.study.__main__", "crystalrl.cli")
    listed = subprocess.run([sys.executable, "-c", script.replace("main([])", "main(['list'])")], capture_output=True)
    assert listed.returncode == 0, listed.stderr.decode()
    assert b"one-halfcheetah" in listed.stdout


def test_processes_share_a_study_and_run_nothing_twice(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out"), "--device", "cpu"]
    main([str(study), *out, "--share", "1/2"])
    first = capsys.readouterr().out
    main([str(study), *out, "--share", "2/2"])
    second = capsys.readouterr().out
    assert ("EWC" in first) != ("EWC" in second)
    main([str(study), *out])
    assert capsys.readouterr().out == ""


def test_no_run_starts_after_the_time_limit(study: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"2 runs are left"):
        main([str(study), "--out", str(tmp_path / "out"), "--minutes", "-1"])


def test_invalid_input_is_one_line_on_stderr_with_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["demmo", "--out", str(tmp_path / "out")])
    assert capsys.readouterr().err.startswith("crystalrl: study: wanted one of")


def test_learners_that_failed_are_named_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTILE", "inf observation")
    world = suite(f"gym:{HOSTILE}", [0, 1]).world(8)
    monkeypatch.setenv("HOSTILE_SEEDS", first_seeds(world, [1]))
    study = tmp_path / "bad.toml"
    study.write_text(STUDY.partition("[rows")[0].replace("nav-2-redefined", f"gym:{HOSTILE}") + "[rows.plain]\n")
    with pytest.raises(SystemExit, match=r"failed:\nlane 1 \(plain, seed 1\), environment 0, Hostile-v0, step 4 "):
        main([str(study), "--out", str(tmp_path / "out"), "--device", "cpu"])
    assert set(read(tmp_path / "out", "scores")["seed"].tolist()) == {0}


def test_the_steps_of_a_trial_replace_those_of_own_tasks_too(tmp_path: Path) -> None:
    tasks = '[[tasks]]\nmake = "CartPole-v1"\n[[tasks]]\nmake = "CartPole-v1"\nsteps = 9000\n'
    settings = "capacity = 64\nbatch = 16\nepisodes = 1\npoints = 1\n"
    (tmp_path / "own.toml").write_text(f"{tasks}[rows.VR]\n{settings}")
    main([f"{tmp_path}/own.toml", "--out", f"{tmp_path}/out", "--device", "cpu", "--steps", "80"])
    curves = read(tmp_path / "out", "curves")
    assert (curves["task"].tolist(), curves["step"].tolist()) == ([0, 1], [80, 80])


def test_ctrl_c_ends_a_study_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Trainer, stage: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "begin", interrupted)
    (tmp_path / "study.toml").write_text(STUDY)
    with pytest.raises(SystemExit, match="130"):
        main([str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--device", "cpu"])
    assert capsys.readouterr().err.startswith("crystalrl: interrupted. Results so far are kept")
