"""The examples run as a reader would run them, and show what they claim."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.examples.conftest import EXAMPLES, RunHere


def run(name: str, *arguments: str, at: Path) -> str:
    """What an example prints, in a process of its own."""
    command = [sys.executable, "-W", "ignore::UserWarning", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < (150 if path.name.startswith("cleanrl_") else 80)


@pytest.mark.filterwarnings("ignore")
def test_the_sac_example_learns_saves_and_resumes(tmp_path: Path, run_here: RunHere) -> None:
    printed = run_here("sb3_sac.py", "--steps", "1000", "--out", str(tmp_path))
    assert "step  1,000: return" in printed
    assert "crystal" in printed
    assert "after resuming: return" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"model.zip", "memory.safetensors"}


def test_the_continual_example_writes_results_and_figure_and_repeats_no_run(tmp_path: Path, run_here: RunHere) -> None:
    command = [
        "sb3_continual.py",
        "--seeds",
        "1",
        "--workers",
        "1",
        "--scale",
        "0.07",
    ]  # learning starts after 500 of 560 steps
    run(*command, at=tmp_path)
    text = (tmp_path / "sb3_continual.json").read_text()
    runs = json.loads(text)
    assert sorted(one["buffer"] for one in runs) == ["crystal", "prioritized", "stock"]
    assert all(len(one["scores"]) == 4 and set(one["scores"][0]) == {"A", "B", "C"} for one in runs)
    run_here(*command)
    assert (tmp_path / "sb3_continual.json").read_text() == text
    from matplotlib import image

    assert np.ptp(image.imread(tmp_path / "sb3_continual.png")) > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:memory")
def test_the_crystal_buffer_keeps_what_the_stock_buffer_forgets(monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("sb3_continual")
    stock, crystal = (example.run(buffer, 1000)["scores"] for buffer in ("stock", "crystal"))
    assert min(stock[0]["A"], stock[1]["B"], crystal[0]["A"], crystal[1]["B"]) > 90  # both learn A, then B
    assert min(crystal[2]["A"], crystal[2]["B"]) > 90
    assert min(stock[2]["A"], stock[2]["B"]) < 40


@pytest.mark.parametrize(
    ("first", "second", "saved"),
    [
        ("torchrl_dqn", "torchrl_pendulum", "sampler/memory.safetensors"),
        ("tianshou_dqn", "tianshou_sac", "."),
    ],
    ids=["torchrl", "tianshou"],
)
@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_another_library_learn_and_save(
    first: str, second: str, saved: str, tmp_path: Path, run_here: RunHere
) -> None:
    """Learning starts after 500 steps; the largest memory is consolidated after 600."""
    for name in (first, second):
        assert "crystal: " in run_here(f"{name}.py", "--steps", "640", "--out", name)
        assert (tmp_path / name / saved).exists()


def test_the_offline_example_ranks_and_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    printed = run("minari_offline.py", "--episodes", "6", "--updates", "100", at=tmp_path)
    assert "highest c: " in printed
    assert "exported " in printed
