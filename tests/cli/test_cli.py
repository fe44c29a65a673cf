"""The command line: what it refuses before any training, and what it leaves behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crystalrl import __version__, cli
from crystalrl.study.run import Trainer
from crystalrl.suites.classic import suite
from tests.suites.bad_environments import HOSTILE, first_seeds

TINY = ["--steps", "80", "--capacity", "64", "--batch", "16", "--episodes", "2", "--points", "1"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run nav-2 --steps 0", "steps: wanted a whole number ≥ 1, got 0"),
        ("run nav-2 --seeds 1,1", "seeds: wanted each once, got [1] more than once"),
        ("run nav-2 --memory crytal", "did you mean 'crystal'?"),
        ("run nav2", "did you mean 'nav-2'?"),
        ("run nav-2 --memory crystal --params.alpa 1", "params.alpa: wanted one of"),
        ("run nav-2 --method ewc --method-params.strength=-1", "method_params.strength: wanted numbers ≥ 0"),
        ("study demmo", "did you mean 'demo'?"),
        ("study nav-evidence --tables eigth", "did you mean 'eight'?"),
        ("report nowhere", "nowhere: wanted a folder of results"),
        ("list --params.alpha 3", "belong to `crystalrl run`"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(
    line: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(Trainer, "__init__", never)
    with pytest.raises(SystemExit) as ended:
        cli.main(line.split())
    assert ended.value.code == 2
    said = capsys.readouterr().out
    assert message in said
    assert "Traceback" not in said
    assert not Path("runs").exists()


def test_results_of_another_spec_are_refused_before_anything_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["run", "nav-1", *TINY])
    with pytest.raises(SystemExit):
        cli.main(["run", "nav-1", *TINY, "--seeds", "4"])
    assert "out: wanted results of this spec, got those of another in runs/run: rows.uniform.seeds differ" in (
        capsys.readouterr().out
    )


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
        "minatar-breakout --agent rainbow --memory prioritized --method ewc --agent-params.width 16",
    ],
)
def test_every_agent_runs_a_suite_to_a_report(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["run", *line.split(), *TINY, "--device", "cpu"])
    assert "Full report" in capsys.readouterr().out


def test_an_agent_that_does_not_fit_the_actions_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "pendulum-2", *TINY, "--device", "cpu"])
    assert "agent: wanted one for box actions (1,), such as sac" in capsys.readouterr().out


def test_values_are_read_as_numbers_booleans_and_words() -> None:
    rest, sections = cli.take_sections(
        ["run", "nav-2", "--params.k", "3", "--params.backup=.5", "--method-params.online", "true", "--seeds", "1"]
    )
    assert rest == ["run", "nav-2", "--seeds", "1"]
    assert sections["params"] == {"k": 3, "backup": 0.5}
    assert sections["method_params"] == {"online": True}
    assert cli.parse_choice("none,exists") == ["none", "exists"]


def test_the_list_names_every_study_memory_and_preset(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["list"])
    said = capsys.readouterr().out
    suites = ("nav-N-redefined", "cartpole[-N]", "pendulum[-N]", "minatar-5")
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
    assert "runs: wanted a folder of results, found no spec.toml" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["--version"])
    assert capsys.readouterr().out.split() == ["crystalrl", __version__]


def test_an_interrupted_run_says_how_to_continue_and_shows_no_traceback(tmp_path: Path) -> None:
    command = ["run", "nav-2", "--steps", "1000000", "--seeds", "0", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "crystalrl", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "spec.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "crystalrl resume" in told


@pytest.mark.parametrize("all_fail", [False, True])
def test_learners_that_failed_are_named_at_the_end_and_the_exit_code_says_so(
    all_fail: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTILE", "nan reward")
    world = suite(f"gym:{HOSTILE}", [0, 1]).world(8)
    monkeypatch.setenv("HOSTILE_SEEDS", first_seeds(world, [0, 1] if all_fail else [1]))
    line = ["run", f"gym:{HOSTILE}", *TINY, "--seeds", "0:2"]
    for again in (line, ["resume", "runs/run"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(again)
        assert ended.value.code == 1
        said = capsys.readouterr().out
        assert ("Full report" in said) != all_fail
        named = [words for words in said.splitlines() if words.startswith("failed ")]
        assert len(named) == 1 + all_fail
        assert named[-1].startswith("failed lane 1 (uniform, seed 1), environment 0, Hostile-v0, step 4 while training")
