"""The benchmark harness: its timer, its results, its command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from benchmarks import first_minutes, internals
from benchmarks.__main__ import main
from benchmarks.harness.results import RESULTS, Setting, in_parts, load
from benchmarks.harness.timing import Job, excess, interleaved, medians, ratio
from benchmarks.libraries.learning import compare
from benchmarks.registry import BENCHMARKS
from crystalrl import CrystalMemory, PrioritizedMemory, ReservoirMemory, UniformMemory

ROOT = Path(__file__).parents[1]


def test_every_benchmark_is_listed_with_what_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(BENCHMARKS)
    assert [line.split()[0] for line in lines if line.split()[1] != "stored"] == ["cuda-profile"]


def test_every_stored_result_belongs_to_a_benchmark() -> None:
    """Published numbers of others are the exception."""
    files = [benchmark.file for benchmark in BENCHMARKS.values()]
    assert len(files) == len(set(files))
    assert {path.stem for path in RESULTS.glob("*.json")} - set(files) == {"halfcheetah_published"}


def test_jobs_take_turns_in_the_same_order_and_time_counts_per_call() -> None:
    called: list[str] = []
    ticks = count()
    jobs = {"one": Job(lambda: called.append("one"), 2), "two": Job(lambda: called.append("two"))}
    times = interleaved(jobs, 3, lambda: float(next(ticks)), warmup=1)
    assert called == ["one", "one", "two"] * 4
    assert times == {"one": [0.5] * 3, "two": [1.0] * 3}
    assert medians(times, 1e-3) == {"one": 500, "two": 1000}


def test_alternatives_are_compared_within_a_round() -> None:
    slow, fast = [2.0, 20.0, 3.0], [1.0, 10.0, 1.0]
    assert ratio(slow, fast) == 2
    assert excess(slow, fast) == 2


def test_parts_add_to_the_result_and_others_stay() -> None:
    parts = {"a": lambda: {"a": 1}, "b": lambda: {"b": 2}}
    assert [dict(result) for result in in_parts(Setting(), parts)] == [{"a": 1}, {"a": 1, "b": 2}]
    setting = Setting(only=("b",), stored={"a": 0, "b": 0})
    assert list(in_parts(setting, parts)) == [{"a": 0, "b": 2}]
    with pytest.raises(ValueError, match="only: wanted some of a, b, got c"):
        next(in_parts(Setting(only=("c",)), parts))


def test_a_comparison_continues_where_it_stopped() -> None:
    keys = [("DQN", buffer, seed) for seed in range(2) for buffer in ("stock", "plain")]
    ran = []

    def run(*key: object) -> float:
        ran.append(key)
        return 1.0

    states = compare(None, keys, run)
    next(states)
    stored = list(next(states))
    states.close()
    *_, runs = compare(stored, keys, run)
    assert ran == keys
    assert [(r["algorithm"], r["buffer"], r["seed"]) for r in runs] == keys
    assert list(compare(runs, keys, run)) == []


def test_a_run_writes_its_numbers_and_prints_its_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All parts are stored already, so nothing is measured."""
    path = tmp_path / "new" / "pendulum.json"
    path.parent.mkdir()
    path.write_text(json.dumps(load("sb3_pendulum")))
    main(["run", "sb3-pendulum", "--json", str(path)])
    assert "| Pendulum-v1, 5 seeds |" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [UniformMemory, PrioritizedMemory, ReservoirMemory, CrystalMemory])
@pytest.mark.parametrize("anchored", [False, True])
def test_the_bytes_of_a_memory_are_those_of_its_parts_and_anchors(kind: type, anchored: bool) -> None:
    anchor = {"anchor": {"q": (2,)}} if anchored and kind is CrystalMemory else {}
    memory = kind(64, obs=(2,), action=2, **anchor)
    parts = internals.bytes_by_part(memory)
    assert set(parts) == {"payload", "ledger", "lists", "vectors"}
    assert sum(parts.values()) * 64 + 64 * 2 * 4 * len(anchor) == memory.nbytes


def test_the_benchmark_of_memories_is_also_a_script(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "memory.py"), "--only", "nothing"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "only: wanted some of speed, start, large, profile, bytes, consolidation, got nothing" in done.stderr


@pytest.mark.parametrize(("links", "said"), [("/some/wheels", "local"), ("", "downloaded")])
def test_timed_first_minutes_say_whether_packages_are_downloaded(
    links: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", links)
    assert first_minutes.packages() == said
    result = load("first_minutes")
    result["runs"] = [{**result["runs"][0], "packages": said}]
    (run,) = result["runs"]
    assert f"run 1, {run['steps']:,} steps, load {run['load']}, packages {said} |" in first_minutes.block(result)
    assert f"--steps {first_minutes.steps()} " in (ROOT / "docs/start.md").read_text()


def test_every_stored_path_of_a_new_user_took_as_few_lines_as_required() -> None:
    for run in load("first_minutes")["runs"]:
        assert set(run["paths"]) == set(first_minutes.LIMITS)
        for name, (lines, _) in first_minutes.LIMITS.items():
            assert lines is None or run["paths"][name]["lines"] <= lines
    assert first_minutes.changed_lines("a\nb\nc", "a\nB\nc\nd") == 2
    assert first_minutes.changed_lines(first_minutes.BEFORE, first_minutes.AFTER) <= 5


QUICK = (
    "agreement", "consolidation", "contexts", "deviations", "frames", "halfcheetah", "interference", "learners",
    "pictures",
    "sb3-continual", "sb3-overhead", "sb3-pendulum", "adoption-cleanrl", "adoption-parts", "overhead-cleanrl",
    "overhead-tianshou", "overhead-torchrl", "suites",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_run_has_the_keys_of_the_stored_result(name: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    main(["run", name, "--quick", "--device", "cpu", "--json", str(path)])
    measured, stored = json.loads(path.read_text()), load(BENCHMARKS[name].file)
    if isinstance(stored, list):
        measured, stored = measured[0], stored[0]
    if name != "consolidation":  # its parts are named by size and stream
        assert set(measured) == set(stored)


@pytest.mark.slow
def test_bytes_per_experience_are_those_of_the_stored_result(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    main(["run", "memory", "--only", "bytes", "--json", str(path)])
    assert json.loads(path.read_text())["bytes_per_experience"] == load("memory")["bytes_per_experience"]
