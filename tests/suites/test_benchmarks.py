"""Published sequences are found by their names, without their packages."""

import subprocess
import sys

import pytest

from crystalrl.study.registry import SUITES, check_suite, suite_note, task_names
from crystalrl.suites.benchmarks import ABOUT, benchmark, sequence_of
from crystalrl.suites.tasks import Sequence, Task

NAMES = [name.replace("N", "4") for name in ABOUT]


@pytest.mark.parametrize("name", NAMES)
def test_every_listed_name_is_a_suite_with_names_and_a_note(name: str) -> None:
    check_suite(name)
    found = benchmark(name)
    assert task_names(name) == found.tasks.names == sequence_of(name).names
    assert suite_note(name) == found.note
    assert set(ABOUT) <= set(SUITES)


def test_other_names_and_own_tasks_are_left_alone() -> None:
    own = Sequence([Task(make="CartPole-v1")])
    assert sequence_of(own) is own
    assert sequence_of("nav-8") is None
    with pytest.raises(ValueError, match=r"did you mean 'mt50'\?"):
        check_suite("mt5")


def test_names_are_known_without_the_packages() -> None:
    code = f"""
import sys
from crystalrl.suites.benchmarks import benchmark
assert all(benchmark(name) for name in {NAMES})
assert not {{"metaworld", "mujoco", "ale_py", "cv2", "gymnasium"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
