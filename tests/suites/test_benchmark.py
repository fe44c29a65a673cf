"""A benchmark says what to install, and may define its orders."""

from dataclasses import replace

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
