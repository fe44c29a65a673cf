"""Commands that train: what a failed one leaves behind, and how an interrupted one continues."""

import shlex
from pathlib import Path

import pytest
import torch

from crystalrl import cli
from crystalrl.cli.training import resume_command
from crystalrl.study.execution import Execution
from crystalrl.study.run import Trainer
from crystalrl.study.store import Store

TINY = ["--steps", "80", "--capacity", "64", "--batch", "16", "--episodes", "2", "--points", "1"]
TWO = """
[tables.one]
rows.VR = { suite = "nav-1", steps = 80, capacity = 64, batch = 16, episodes = 2, points = 1 }
[tables.two]
rows.PER = { suite = "nav-1", steps = 80, capacity = 64, batch = 16, episodes = 2, points = 1, memory = "prioritized" }
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("folders", "execution", "words"),
    [
        (["runs/run"], Execution(), "crystalrl resume runs/run"),
        (["runs/two/one", "runs/two/two"], Execution(), "crystalrl resume runs/two"),
        (["my runs"], Execution(device="cpu", how="ray"), "crystalrl resume 'my runs' --device cpu --how ray"),
        (["a"], Execution(checkpoint_minutes=2.0), "crystalrl resume a --checkpoint-minutes 2.0"),
    ],
)
def test_the_command_that_continues_names_the_folder_and_the_same_options(
    folders: list[str], execution: Execution, words: str
) -> None:
    assert resume_command([Path(folder) for folder in folders], execution) == words


def test_ctrl_c_prints_a_command_that_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Trainer, stage: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "begin", interrupted)
        with pytest.raises(SystemExit, match="130"):
            cli.main(["run", "nav-1", *TINY, "--out", "my runs", "--device", "cpu"])
    said = capsys.readouterr().err
    assert (
        said == "crystalrl: interrupted. Results so far are kept: `crystalrl resume 'my runs' --device cpu` continues\n"
    )
    cli.main(shlex.split(said.split("`")[1])[1:])
    assert "Full report: my runs/report.html" in capsys.readouterr().out


TRIALS = """
trials = 2
seeds = "1000:1001"
defaults = { suite = "nav-1", steps = 80, capacity = 64, batch = 16, episodes = 2, points = 1, method = "ewc" }
[rows.EWC]
[search.EWC]
method_params.strength = { low = 1.0, high = 10.0 }
"""


def test_ctrl_c_while_tuning_prints_the_command_that_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Trainer, stage: int) -> None:
        raise KeyboardInterrupt

    Path("search.toml").write_text(TRIALS)
    monkeypatch.setattr(Trainer, "begin", interrupted)
    with pytest.raises(SystemExit, match="130"):
        cli.main(["tune", "search.toml", "--device", "cpu"])
    assert "`crystalrl tune search.toml --out runs/search` continues" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--device", "gpu", "device: wanted cpu or cuda, got 'gpu'"),
        pytest.param(
            *("--device", "cuda", "device: wanted cpu, as PyTorch finds no GPU here, got 'cuda'"),
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        ("--sink", "wanb", "did you mean 'wandb'?"),
        ("--checkpoint-minutes", "-1", "checkpoint_minutes: wanted a number ≥ 0, got -1.0"),
    ],
)
def test_what_this_machine_lacks_is_named_and_nothing_is_left_behind(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", "nav-1", *TINY, option, value])
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert list(Path().iterdir()) == []


def test_a_study_with_one_refused_table_leaves_no_folder_of_another(capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.toml").write_text(TWO)
    Store("runs/two/two", 'title = "another"')
    with pytest.raises(SystemExit, match="2"):
        cli.main(["study", "two.toml"])
    assert "got those of another in runs/two/two" in capsys.readouterr().err
    assert not Path("runs/two/one").exists()
    assert Path("runs/two/two/spec.toml").exists()
