"""Another library's tests with our buffers: which are run, and how their outcomes are counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("stable_baselines3")

from tools.peer_suites import concerned, main, run, show

SUITE = """
import pytest
from stable_baselines3 import DQN, PPO

OPTIONS = {"buffer_size": 50, "learning_starts": 10, "policy_kwargs": {"net_arch": [4]}}


@pytest.mark.parametrize("n_steps", [1, 2])
def test_learns(n_steps):
    seen = []
    model = DQN("MlpPolicy", "CartPole-v1", n_steps=n_steps, **OPTIONS)
    model.learn(40, callback=lambda *_: seen.append(1) or True)
    assert len(seen) == 40
    assert model._n_updates > 0


def test_saves_memory():
    DQN("MlpPolicy", "CartPole-v1", optimize_memory_usage=True,
        replay_buffer_kwargs={"handle_timeout_termination": False}, **OPTIONS)


def test_wants_the_own_buffer():
    model = DQN("MlpPolicy", "CartPole-v1", **OPTIONS)
    assert type(model.replay_buffer).__module__.startswith("stable_baselines3.")


def test_of_something_else():
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_run.py").write_text(SUITE)
    (tmp_path / "tests/test_other.py").write_text("def test_nothing():\n    pass\n")
    return tmp_path


@pytest.mark.parametrize(
    "buffer", ["crystal", *(pytest.param(name, marks=pytest.mark.slow) for name in ("prioritized", "own"))]
)
def test_every_off_policy_model_gets_the_buffer_and_refusals_are_told_from_failures(
    checkout: Path, buffer: str
) -> None:
    assert concerned(checkout) == [checkout / "tests/test_run.py"]
    found = {each["test"].partition("::")[2]: each["outcome"] for each in run(checkout, concerned(checkout), buffer)}
    ours = buffer != "own"
    assert found == {
        "test_learns[1]": "passed",
        "test_learns[2]": "passed",
        "test_saves_memory": "refused" if ours else "passed",
        "test_wants_the_own_buffer": "failed" if ours else "passed",
    }


def test_failures_are_named() -> None:
    console = Console(record=True, width=200)
    refused = {"test": "tests/test_a.py::test_b", "outcome": "refused", "error": "ValueError: no"}
    failed = {"test": "tests/test_a.py::test_c[1]", "outcome": "failed", "error": "AssertionError: this\nand that"}
    show([refused, failed, {"test": "tests/test_a.py::test_d", "outcome": "passed"}], console)
    printed = console.export_text()
    assert "failed  tests/test_a.py::test_c[1]\n        AssertionError: this\n3 tests" in printed
    assert "3 tests of off-policy models: 1 passed, 1 refused, 1 failed" in printed


@pytest.mark.slow
def test_the_exit_code_says_whether_a_test_failed(checkout: Path) -> None:
    assert main([str(checkout), "-k", "memory"]) == 0
    assert main([str(checkout), "-k", "own"]) == 1


def test_a_folder_without_tests_is_refused(checkout: Path) -> None:
    with pytest.raises(SystemExit, match=r"wanted a folder with tests/test_\*\.py"):
        main([str(checkout / "tests")])
