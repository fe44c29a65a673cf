"""A real Ray cluster on this machine: the same scores as without it, even when a worker is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crystalrl.study import execution as execute_module
from crystalrl.study.execution import execute_ray
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store
from tests.study.test_resume import stored

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


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"^how: wanted the package for ray, got none: pip install 'crystalrl\[ray\]'"):
        list(execute_ray(plan({"row": RunSpec("nav-1")}), Store(tmp_path, "")))
    assert "ray" not in vars(execute_module)


def workers() -> list[int]:
    """The processes of Ray that run one of our tasks now."""
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
