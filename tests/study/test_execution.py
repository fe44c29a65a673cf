"""Execution continues where it stopped, here and on a real Ray cluster, with the same scores."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crystalrl.study import execution
from crystalrl.study.definition import Table
from crystalrl.study.execution import execute, execute_ray
from crystalrl.study.plan import plan
from crystalrl.study.run import Progress, Trainer
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store, read
from tests.made_up_results import assert_same, columns
from tests.study.test_checkpoints import stored

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
    store.write("elsewhere", columns(0.5, seed=0, cell="PER"), "cpu")
    monkeypatch.setattr(Trainer, "__init__", lambda *given: pytest.fail("trained"))
    with pytest.raises(ValueError, match=r"got 'PER', seed 0, as in .*part-elsewhere"):
        list(execute(plan(TABLE.runs()), store))


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
