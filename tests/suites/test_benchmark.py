"""A benchmark says what to install, and may define its orders."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from crystalrl.suites.benchmark import permuted
from crystalrl.suites.benchmarks import benchmark


def test_a_missing_package_is_named_with_the_pip_line() -> None:
    absent = replace(benchmark("mt50"), packages=("metaworld_that_is_not_there",))
    wanted = (
        r"suite mt50: wanted the package metaworld_that_is_not_there, got none: pip install 'crystalrl\[metaworld\]'"
    )
    with pytest.raises(ValueError, match=wanted):
        absent.check_installed("mt50")
    benchmark("mt50").check_installed("mt50")


def test_orders_by_seed_are_permutations_relative_to_order_0() -> None:
    found = replace(benchmark("cw10"), seed=7)
    assert found.order(0) == tuple(range(10))
    assert [permuted(7, 10)[stage] for stage in found.order(3)] == list(permuted(3, 10))
    assert benchmark("cw10").order(3) is None


WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
from crystalrl import cli
cli.main(["run", "{suite}", "--agent", "{agent}", "--device", "cpu"])
"""


@pytest.mark.parametrize(
    ("suite", "agent", "missing", "extra"),
    [
        ("cw10", "sac", ["metaworld"], "metaworld"),
        pytest.param("mujoco-6", "sac", ["mujoco"], "mujoco", marks=pytest.mark.slow),
        pytest.param("atari-5", "rainbow", ["ale_py", "cv2"], "atari", marks=pytest.mark.slow),
    ],
)
def test_a_run_without_the_package_says_what_to_install_and_leaves_nothing(
    suite: str, agent: str, missing: list[str], extra: str, tmp_path: Path
) -> None:
    code = WITHOUT.format(packages=set(missing), suite=suite, agent=agent)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"got none: pip install 'crystalrl[{extra}]'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*"))
