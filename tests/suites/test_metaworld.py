"""Meta-World's sequences: their tasks and orders, and tiny runs with the real package."""

import numpy as np
import pytest

from crystalrl.study.plan import stage_order, stage_tasks
from crystalrl.suites import metaworld
from crystalrl.suites.benchmarks import benchmark
from tests.suites.published import assert_continues, assert_declared_sizes, assert_steps, group_of, scores, shortened


def test_mt50_has_every_task_of_the_package_in_its_order() -> None:
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    assert [f"{name}-v3" for name in metaworld.MT50] == list(ALL_V3_ENVIRONMENTS)


def test_order_0_of_mt50_is_the_permutation_by_seed_42_and_the_others_those_by_seeds_1_to_5() -> None:
    names = np.array(benchmark("mt50").tasks.names)
    for order, seed in enumerate((42, 1, 2, 3, 4, 5)):
        wanted = np.array(metaworld.MT50)[np.random.default_rng(seed).permutation(50)]
        assert names[list(stage_order("mt50", order))].tolist() == wanted.tolist()
    assert stage_order("mt50", 0) == tuple(range(50))


def test_cw20_is_cw10_twice_with_the_same_ids() -> None:
    assert stage_tasks("cw20") == stage_tasks("cw10") * 2 == tuple(range(10)) * 2
    once, twice = benchmark("cw10").tasks.tasks, benchmark("cw20").tasks.tasks
    assert [task.options for task in twice] == [task.options for task in once] * 2
    assert {(task.options["steps"], task.options["reward"], task.success) for task in once} == {(200, "v2", True)}
    assert set(metaworld.CW10) | set(metaworld.LADDER) < set(metaworld.MT50)


def test_a_ladder_is_the_beginning_of_every_longer_one_and_has_an_end() -> None:
    assert benchmark("mw-3").tasks.tasks == benchmark("mw-5").tasks.tasks[:3]
    with pytest.raises(ValueError, match="suite: wanted mw-1 to mw-10, got mw-11"):
        benchmark("mw-11")


def test_two_tasks_step_and_a_run_that_is_interrupted_goes_on_bit_for_bit() -> None:
    assert_declared_sizes("mw-2", [1])
    assert_steps("mw-2", [0, 1])
    assert_continues(group_of(shortened("mw-2", [0, 1], steps=10), agent="sac"), at=60)


@pytest.mark.slow
def test_every_task_of_mt50_steps() -> None:
    assert_steps("mt50", range(50), steps=20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cw10", "mw-3"])
def test_results_do_not_depend_on_the_number_of_workers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(shortened(name, [0, 1, 2], steps=30), agent="sac", seeds=(0, 1))
    expected = scores(group)
    for workers in ("1", "2"):
        monkeypatch.setenv("CRYSTALRL_WORKERS", workers)
        assert all((a == b).all() for a, b in zip(expected, scores(group), strict=True))
