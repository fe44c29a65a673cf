"""Execution continues where it stopped, here and on a real Ray cluster, with the same scores."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crystalrl.random import Stream
from crystalrl.study import execution
from crystalrl.study.analysis import load_results
from crystalrl.study.definition import Table
from crystalrl.study.execution import check_device, execute, execute_ray
from crystalrl.study.plan import plan
from crystalrl.study.run import Progress, Trainer
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store, read
from crystalrl.suites.classic import suite
from crystalrl.suites.gym import GymWorld
from tests.made_up_results import assert_same, columns
from tests.study.own_tasks import OWN
from tests.study.own_tasks import SMALL as SMALL_OWN
from tests.study.test_checkpoints import stored
from tests.suites.bad_environments import HOSTILE, first_seeds

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}
TABLE = Table("", {"VR": RunSpec(**SMALL), "PER": RunSpec(memory="prioritized", **SMALL)})
STUDY = """
[defaults]
suite = "nav-2"
steps = 4000
capacity = 300
batch = 32
episodes = 4
seeds = "0:2"
[rows.anchored]
memory = "crystal"
preset = "anchored"
[rows.PER]
memory = "prioritized"
"""


def test_an_interrupted_study_continues_where_it_stopped_and_ends_with_the_same_scores(tmp_path: Path) -> None:
    groups = plan(TABLE.runs())
    interrupted = Store(tmp_path / "a", TABLE.to_toml())
    for number, event in execute(groups, interrupted):
        if number == 1 and isinstance(event, Progress) and event.done > 200:
            break
    assert [interrupted.has(group.key) for group in groups] == [True, False]
    again = {number for number, _ in execute(groups, Store(tmp_path / "a", TABLE.to_toml()))}
    assert again == {1}
    list(execute(groups, Store(tmp_path / "b", TABLE.to_toml())))
    for table in TABLES:
        assert_same(read(tmp_path / "a", table), read(tmp_path / "b", table))
        for part in (tmp_path / "a" / f"{table}.parquet").iterdir():
            assert part.read_bytes() == (tmp_path / "b" / f"{table}.parquet" / part.name).read_bytes()


def test_a_study_that_began_with_pyarrow_continues_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = plan(TABLE.runs())
    list(execute(groups[:1], Store(tmp_path, TABLE.to_toml())))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert {number for number, _ in execute(groups, Store(tmp_path, TABLE.to_toml()))} == {1}
    assert sorted(path.suffix for path in (tmp_path / "scores.parquet").iterdir()) == [".npz", ".parquet"]


def test_cells_that_another_part_holds_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, TABLE.to_toml())
    held = columns(0.5, seed=0, cell="PER")
    held["scores"]["task"] = [0, 1]
    store.write("elsewhere", held, "cpu")
    monkeypatch.setattr(Trainer, "__init__", lambda *given: pytest.fail("trained"))
    with pytest.raises(ValueError, match=r"got 'PER', seed 0, as in .*part-elsewhere"):
        list(execute(plan(TABLE.runs()), store))


def test_learners_from_scratch_whose_tasks_have_own_steps_are_stored_in_several_parts_and_read_together(
    tmp_path: Path,
) -> None:
    small = {**SMALL_OWN, "steps": 160, "points": 1}
    table = Table("", {"VR": RunSpec(OWN, **small), "alone": RunSpec(OWN, scratch=True, **small)})
    groups = plan(table.runs())
    assert [group.stage_steps for group in groups] == [(160, 240, 160), (160,), (240,)]
    for _ in range(2):  # the second time, everything is stored
        list(execute(groups, Store(tmp_path, table.to_toml())))
    scores = read(tmp_path, "scores")
    alone = scores["cell"] == "alone"
    found = sorted(zip(scores["task"][alone].tolist(), scores["after"][alone].tolist(), strict=True))
    assert found == [(task, after) for task in range(3) for after in (0, 1)]
    assert np.isfinite(load_results(tmp_path).rows[0].chosen.metrics["FT paper"]).all()


def test_a_device_that_is_not_here_is_refused() -> None:
    check_device("cpu")
    with pytest.raises(ValueError, match=r"^device: wanted cpu or cuda, got 'tpu'"):
        check_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"^device: wanted cpu, as PyTorch finds no GPU here, got 'cuda:1'"):
            check_device("cuda:1")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"^how: wanted the package for ray, got none: pip install 'crystalrl\[ray\]'"):
        list(execute_ray(plan({"row": RunSpec("nav-1")}), Store(tmp_path, "")))
    assert "ray" not in vars(execution)


def workers() -> list[int]:
    """Ray processes that run one of our tasks now."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"ray::_remote_run" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it has just ended
    return found


@pytest.mark.slow
def test_a_cluster_whose_worker_is_killed_mid_run_stores_what_one_process_stores(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(STUDY)
    command = [sys.executable, "-m", "crystalrl", "study", "small.toml", "--device", "cpu"]
    subprocess.run([*command, "--out", "local"], cwd=tmp_path, check=True, capture_output=True)
    on_ray = [*command, "--out", "ray", "--how", "ray", "--checkpoint-minutes", "0.01"]
    with subprocess.Popen(on_ray, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        deadline = time.monotonic() + 240
        while not list(tmp_path.glob("ray/checkpoints/*.safetensors")):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(workers()[0], signal.SIGKILL)
        said, _ = running.communicate(timeout=400)
    assert running.returncode == 0, said.decode()
    whole = stored(tmp_path / "local")
    assert len(whole) == 6
    assert stored(tmp_path / "ray") == whole
    assert not any((tmp_path / "ray" / "checkpoints").iterdir())


HOSTILE_RUN = RunSpec(
    "gym:" + HOSTILE, memory="crystal", preset="anchored", params={"every": 40, "every_episode": True},
    seeds=(0, 1, 2), steps=200, capacity=64, batch=16, episodes=2, points=1, envs=2,
)  # fmt: skip


def hostile(monkeypatch: pytest.MonkeyPatch, how: str, stream: Stream, lanes: Iterable[int] = (1,)) -> None:
    """Let the first environment of these lanes fail as `how` says, in its first episode for this stream."""
    world = GymWorld(suite(HOSTILE_RUN.suite, HOSTILE_RUN.seeds), 2, stream)
    monkeypatch.setenv("HOSTILE_SEEDS", first_seeds(world, lanes))
    monkeypatch.setenv("HOSTILE", how)


def finished(folder: Path, spec: RunSpec = HOSTILE_RUN) -> Store:
    store = Store(folder, "")
    list(execute(plan({"row": spec}), store))
    return store


@pytest.mark.parametrize(
    ("how", "stream", "what"),
    [
        ("nan reward", Stream.ENVIRONMENT, "step 4 while training: reward: wanted finite numbers, got nan"),
        ("inf observation", Stream.ENVIRONMENT, "step 4 while training: observation: wanted finite numbers, got -inf"),
        ("nan reward", Stream.EVALUATE, "step 4 while scoring: reward: wanted finite numbers, got nan"),
        ("short observation", Stream.EVALUATE, "step 4 while scoring: observation: wanted the shape (2,), got (1,)"),
    ],
)
def test_only_the_learner_whose_environment_lies_fails_and_the_others_store_the_same_bytes(
    how: str, stream: Stream, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(monkeypatch, how, stream)
    (failed,) = finished(tmp_path / "bad").failures()
    assert (failed["cell"], failed["seed"]) == ("row", 1)
    said = f"lane 1 (row, seed 1), environment 0, {HOSTILE}, {what}; this learner has failed"
    assert failed["what"] == said
    finished(tmp_path / "without", replace(HOSTILE_RUN, seeds=(0, 2)))
    for table in TABLES:
        assert_same(read(tmp_path / "bad", table), read(tmp_path / "without", table))
        assert np.isfinite(read(tmp_path / "bad", "scores")["score"]).all()


def test_a_learner_that_failed_stays_failed_when_its_run_is_interrupted_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(monkeypatch, "nan reward", Stream.ENVIRONMENT)
    whole, parts, groups = finished(tmp_path / "whole"), Store(tmp_path / "parts", ""), plan({"row": HOSTILE_RUN})
    for stop in (2, 40):
        events = execute(groups, parts, minutes=0.0)
        next(event for number, (_, event) in enumerate(events) if number == stop)
        events.close()
    assert not parts.failures()
    list(execute(groups, parts))
    assert parts.failures() == whole.failures()
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")


def test_a_run_whose_learners_all_fail_stores_no_scores_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(monkeypatch, "nan reward", Stream.ENVIRONMENT, range(3))
    store, (group,) = finished(tmp_path), plan({"row": HOSTILE_RUN})
    assert [one["seed"] for one in store.failures()] == [0, 1, 2]
    assert not store.has(group.key)
    monkeypatch.setenv("HOSTILE", "never")
    assert finished(tmp_path).has(group.key)
    assert not store.failures()


@pytest.mark.parametrize("suite", ["nav-2", "cartpole-2"])
def test_runs_that_take_turns_store_the_same_bytes_as_one_after_another(suite: str, tmp_path: Path) -> None:
    fields = {**SMALL, "suite": suite}
    rows = {kind: RunSpec(memory=kind, **fields) for kind in ("uniform", "prioritized", "reservoir")}
    groups = plan(rows)
    order = [number for number, event in execute(groups, Store(tmp_path / "one", "")) if isinstance(event, Progress)]
    turns = execute(groups, Store(tmp_path / "turns", ""), together=2)
    mixed = [number for number, event in turns if isinstance(event, Progress)]
    assert order == sorted(order) != mixed
    assert sorted(mixed) == order
    assert stored(tmp_path / "turns") == stored(tmp_path / "one")
    with pytest.raises(ValueError, match="together: wanted a whole number ≥ 1, got 0"):
        list(execute(groups, Store(tmp_path / "none", ""), together=0))


def test_a_study_of_runs_that_take_turns_goes_on_after_an_interruption(tmp_path: Path) -> None:
    groups = plan({kind: RunSpec(memory=kind, **{**SMALL, "suite": "cartpole-2"}) for kind in ("uniform", "reservoir")})
    list(execute(groups, Store(tmp_path / "whole", "")))
    for number, event in execute(groups, Store(tmp_path / "parts", ""), minutes=0.0, together=2):
        if number == 1 and isinstance(event, Progress) and event.done > 200:
            break
    list(execute(groups, Store(tmp_path / "parts", ""), together=2))
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")
