"""What the commands do and leave behind."""

import subprocess
from pathlib import Path

import pytest

from crystalrl import cli
from crystalrl.cli.commands import Demo
from crystalrl.study.definition import load_study
from crystalrl.study.run import Trainer

TINY = ["--steps", "80", "--capacity", "64", "--batch", "16", "--episodes", "2", "--points", "1"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_ends_with_a_table_and_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["run", "nav-2", *TINY, "--seeds", "0:2", "--method", "ewc", "--method-params.strength", "1,10"])
    said = capsys.readouterr().out
    assert "strength=1" in said
    assert Path("runs/run/report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    "line",
    [
        "cartpole-3 --agent dqn --seeds 0:2",
        "pendulum-3 --agent sac --seeds 0:2 --agent-params.width 16 --agent-params.learning-rate 1e-3,1e-4",
        "mountaincar-2-hidden --agent td3 --memory crystal --preset anchored --agent-params.width 16",
        "reach-2-redefined --agent sac --memory crystal --preset anchored --agent-params.width 16",
        "drift-3 --agent dqn --memory reservoir --seeds 0:2",
        "minatar-breakout --agent rainbow --memory prioritized --method ewc --agent-params.width 16",
    ],
)
def test_every_agent_runs_a_suite_to_a_report(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["run", *line.split(), *TINY, "--device", "cpu"])
    assert "Full report" in capsys.readouterr().out


def test_a_refused_agent_leaves_no_folder_behind_that_refuses_the_corrected_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "pendulum-2", *TINY, "--device", "cpu"])
    assert "agent: wanted one for box actions (1,), such as sac" in capsys.readouterr().err
    assert not Path("runs/run").exists()
    cli.main(["run", "nav-1", *TINY, "--device", "cpu"])
    assert "Full report" in capsys.readouterr().out


def test_the_list_names_every_study_memory_and_preset(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["list"])
    said = capsys.readouterr().out
    suites = ("--tasks FILE", "nav-N-redefined", "cartpole[-N]", "pendulum[-N]", "minatar-5")
    for name in (*suites, "sac", "td3", "rainbow", "reservoir", "distill", "anchored", "nav-evidence", "demo"):
        assert f"  {name}" in said


TWO = """
[tables.one]
rows.VR = { suite = "nav-1", steps = 80, capacity = 64, batch = 16, episodes = 2, points = 1 }
[tables.two]
rows.PER = { suite = "nav-1", steps = 80, capacity = 64, batch = 16, episodes = 2, points = 1, memory = "prioritized" }
"""


def test_an_interrupted_study_is_reported_so_far_and_resumed_to_its_last_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("two.toml").write_text(TWO)
    begin = Trainer.begin

    def interrupted(self: Trainer, stage: int) -> None:
        if self.spec.memory == "prioritized":
            raise KeyboardInterrupt
        begin(self, stage)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "begin", interrupted)
        with pytest.raises(SystemExit, match="130"):
            cli.main(["study", "two.toml"])
    capsys.readouterr()
    cli.main(["report", "runs/two"])
    assert "runs/two/one/report.html" in capsys.readouterr().out
    cli.main(["resume", "runs/two"])
    assert "runs/two/two/report.html" in capsys.readouterr().out


def test_nothing_to_resume_is_an_error_that_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["resume", "runs"])
    assert "runs: wanted a folder of results, found no spec.toml" in capsys.readouterr().err


def test_the_demo_runs_as_many_configurations_as_its_help_and_the_readme_say() -> None:
    (table,) = load_study("demo").values()
    word = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")[len(table.rows)]
    assert f"Train {word} configurations on four tasks" in str(Demo.__doc__)
    assert f"{word} methods learn four tasks" in (Path(__file__).parents[2] / "README.md").read_text()


COMPLETE = """
source completion.bash
COMP_WORDS=(crystalrl {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tyro_crystalrl
echo ${{COMPREPLY[@]}}
"""


@pytest.mark.parametrize(
    ("words", "completed"),
    [("st", "study"), ("theory cl", "claims"), ("run --see", "--seeds")],
)
def test_the_shell_completes_commands_and_options(
    words: str, completed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["completion", "bash"])
    Path("completion.bash").write_text(capsys.readouterr().out)
    done = subprocess.run(["bash", "-c", COMPLETE.format(words=words)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]
    assert done.stderr == ""


def test_own_tasks_run_from_a_file_and_resume_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The stored spec holds the tasks: in a folder with nothing else, it makes the same bytes."""
    Path("own_module.py").write_text(OWN_MODULE)
    Path("tasks.toml").write_text(OWN_FILE)
    cli.main(["run", "--tasks", "tasks.toml", *TINY, "--seeds", "0:2", "--out", "whole"])
    assert "first, second" in capsys.readouterr().out
    Path("tasks.toml").unlink()
    Path("again").mkdir()
    Path("again/spec.toml").write_bytes(Path("whole/spec.toml").read_bytes())
    cli.main(["resume", "again"])
    parts = [
        {part.name: part.read_bytes() for part in Path(folder).glob("scores.parquet/*")}
        for folder in ("whole", "again")
    ]
    assert len(parts[0]) == 1
    assert parts[0] == parts[1]


def test_a_suite_and_own_tasks_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tasks.toml").write_text(OWN_FILE)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "nav-2", "--tasks", "tasks.toml", *TINY])
    assert ended.value.code == 2
    assert "suite: wanted none with --tasks, got 'nav-2'" in capsys.readouterr().err


OWN_MODULE = """
import gymnasium

def short(**options):
    return gymnasium.make("MountainCar-v0", max_episode_steps=20, **options)
"""
OWN_FILE = """
[[tasks]]
name = "first"
make = "CartPole-v1"
high = 500
[[tasks]]
name = "second"
make = "own_module:short"
low = -200
high = -110
steps = 40
"""
