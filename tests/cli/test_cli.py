"""The command line as a whole: how it ends, with which message and which exit status."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
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
        (
            "list --params.alpha 3",
            "options: wanted settings of a memory, method or agent only with `crystalrl run`, got --",
        ),
        ("run nav-2 --params.alpha 3", "params: wanted none, as uniform has no settings, got 'alpha'"),
        ("run nav-2 --memory uniform --preset paper", "preset: wanted none, as uniform has no presets, got 'paper'"),
        ("theory design --tasks 0", "crystalrl: tasks: wanted a number > 0, got 0\n"),
        ("theory design --lifetime 10 --preset paper", "crystalrl: lifetime + maturity: wanted more than 100000 steps"),
        ("theory design --tau-L .8 --preset paper", "crystalrl: tau_L, tau_C: wanted 0 < tau_L < tau_C < 1, got 0.8 "),
        ("theory design --preset paper --tasks 3", "crystalrl: options: wanted those of the preset paper, got some"),
        ("theory show --slots -3", "crystalrl: slots: wanted a whole number ≥ 1, got -3"),
        ("theory show --slots 9 --plot law.foo", "figure: wanted a file that ends in .png or .svg, got 'law.foo'"),
        ("run gym:CartPol-v1", "got gym:CartPol-v1: Environment `CartPol` doesn't exist. Did you mean: `CartPole`?"),
        ("run gym:NoSuch-v0", "got gym:NoSuch-v0: Environment `NoSuch` doesn't exist."),
        ("run nav-2 --stps 3", "options: wanted those that --help lists, got --stps, 3"),
        ("theory show --utility 2", "utility: wanted a number in [0, 1], got 2"),
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
    said = capsys.readouterr()
    assert said.err.startswith("crystalrl: ")
    assert message in said.err
    assert "Traceback" not in said.err + said.out
    assert said.out == ""
    assert not Path("runs").exists()


def test_results_of_another_spec_are_refused_before_anything_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["run", "nav-1", *TINY])
    with pytest.raises(SystemExit):
        cli.main(["run", "nav-1", *TINY, "--seeds", "4"])
    said = capsys.readouterr().err
    assert "out: wanted results of this spec, got those of another in runs/run: rows.uniform.seeds differ" in said
    assert "--out" in said
    assert "`crystalrl resume runs/run`" in said


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["--version"])
    assert capsys.readouterr().out.split() == ["crystalrl", __version__]


def test_an_interrupted_run_says_how_to_continue_and_shows_no_traceback(tmp_path: Path) -> None:
    command = ["run", "nav-2", "--steps", "1000000", "--seeds", "0", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "crystalrl", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background it would be ignored
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "spec.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert f"`crystalrl resume {tmp_path}/run` continues" in told


def test_a_reader_that_closes_the_pipe_ends_the_command_in_silence() -> None:
    line = f"{sys.executable} -m crystalrl list | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout == "suites\n"
    assert done.stderr == ""


BLOCKER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def without(packages: set[str], code: str) -> subprocess.CompletedProcess[str]:
    """A new process in which the packages cannot be imported."""
    program = BLOCKER.format(blocked=packages) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


EACH = """
from crystalrl.cli import main
for words in (["--help"], ["run", "nav-2"], ["theory", "show"], [], ["--version"]):
    try:
        main(words)
    except SystemExit as ended:
        print(ended.code)
"""


def test_without_its_packages_every_command_prints_the_line_to_type() -> None:
    done = without({"tyro", "rich", "scipy", "matplotlib", "pyarrow", "statsmodels", "gymnasium"}, EACH)
    line = (
        "crystalrl: command line: wanted the packages matplotlib, rich, scipy, tyro, got none: "
        "pip install 'crystalrl[study]'"
    )
    theory = (
        "crystalrl: theory: wanted the packages matplotlib, rich, scipy, tyro, got none: "
        "pip install 'crystalrl[theory]'"
    )
    assert done.stderr.splitlines() == [line, line, theory, line]
    assert done.stdout.splitlines() == ["2"] * 4 + [f"crystalrl {__version__}"]


INTERRUPTING = """
import os, signal, sys, time
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "tyro":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            except KeyboardInterrupt:
                pass  # as packages do that import others if they can
sys.meta_path.insert(0, Interrupted())
from crystalrl.cli import main
main(["list"])
"""


def test_ctrl_c_while_packages_are_imported_ends_the_command_even_if_one_of_them_swallows_it() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "crystalrl: interrupted\n")


def test_the_theory_needs_only_its_own_extra() -> None:
    code = 'from crystalrl.cli import main; main(["theory", "show", "--slots", "2000"])'
    done = without({"numba", "pandas", "statsmodels", "gymnasium", "pyarrow", "minatar"}, code)
    assert done.returncode == 0, done.stderr
    assert "Consolidation every 200 environment steps" in done.stdout


def test_broken_toml_is_an_error_with_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.toml").write_text('title = "x"\nrows = [\n')
    for command in ("study", "tune"):
        with pytest.raises(SystemExit, match="2"):
            cli.main([command, "broken.toml"])
        said = capsys.readouterr().err
        assert said.startswith("crystalrl: broken.toml: wanted TOML")
        assert "line 3" in said or "end of document" in said


class Destructive(gymnasium.Env[np.ndarray, int]):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict[str, object]]:
        return self.observation_space.low, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        shutil.rmtree("runs/run", ignore_errors=True)
        return self.observation_space.low, 0.0, True, False, {}


@pytest.mark.parametrize("debug", [False, True])
def test_a_run_that_fails_ends_with_status_1_and_a_traceback_only_for_debugging(
    debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = gymnasium.envs.registration.EnvSpec("Destructive-v0", Destructive)
    monkeypatch.setitem(gymnasium.registry, "Destructive-v0", spec)
    with pytest.raises(SystemExit, match="1"):
        cli.main(["run", "gym:Destructive-v0", *TINY, "--device", "cpu", *["--debug"] * debug])
    said = capsys.readouterr().err
    last = said.splitlines()[-1]
    assert last.startswith("crystalrl: run failed: ")
    assert "No such file or directory" in last
    assert "`crystalrl resume runs/run --device cpu`" in last
    assert ("Traceback" in said) == debug


def test_a_variable_of_the_environment_asks_for_tracebacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRYSTALRL_DEBUG", "1")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["report", "nowhere"])
    assert "Traceback" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_an_error_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs").write_text("a file where the folder should be")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", "nav-1", *TINY])
    said = capsys.readouterr().err
    assert said.startswith("crystalrl: ")
    assert "runs" in said
    assert "Traceback" not in said
    assert Path("runs").read_text() == "a file where the folder should be"


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
