"""The registry: what it refuses, and what it suggests instead."""

import pytest

from crystalrl.study.registry import check, has_boundaries, suite_note
from crystalrl.study.spec import RunSpec


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": "crytal"}, "^memory: .*did you mean 'crystal'"),
        ({"method": "ewcc"}, "^method: .*did you mean 'ewc'"),
        ({"suite": "nav8"}, "^suite: .*did you mean 'nav-8'"),
        ({"suite": "nav-1-redefined"}, "^suite: "),
        ({"suite": "reach8"}, "^suite: .*did you mean 'reach-8'"),
        ({"suite": "reach-4-hiden"}, "^suite: .*did you mean 'reach-4-hidden'"),
        ({"suite": "drift4"}, "^suite: .*did you mean 'drift-4'"),
        ({"suite": "drift-4-hidden"}, "^suite: wanted .*, got 'drift-4-hidden'"),
        ({"preset": "paper"}, "^preset: wanted none, as uniform has no presets, got 'paper'"),
        ({"memory": "crystal", "preset": "papr"}, "^preset: .*did you mean 'paper'"),
        ({"memory": "crystal", "params": {"alpa": 1}}, "^params.alpa: .*did you mean 'alpha'"),
        ({"memory": "crystal", "params": {"alpha": [0.1, -1]}}, "^params.alpha: wanted a number from 0"),
        ({"method": "ewc", "method_params": {"strength": -1.0}}, "^method_params.strength: wanted numbers ≥ 0"),
        ({"method": "ewc", "method_params": {"strength": "much"}}, "^method_params: .* got {'strength': 'much'}"),
        ({"agent": "nec"}, "^method: wanted nec with the agent nec and with no other, got none with nec"),
        ({"method": "nec"}, "^method: wanted nec with the agent nec and with no other, got nec with dqn"),
        ({"agent_params": {"widht": 3}}, "^agent_params.widht: .*did you mean 'width'"),
    ],
)
def test_unknown_names_are_refused_with_the_closest_known_one(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(RunSpec(**fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "ewc"}, "^method: wanted one that needs no task boundaries for drift-4, got 'ewc'"),
        ({"method": "distill"}, "^method: wanted one that needs no task boundaries for drift-4, got 'distill'"),
        ({"orders": 2}, "^orders: wanted 1 for drift-4, which has one order, got 2"),
        ({"order": 1}, "^order: wanted 0 for drift-4, which has one order, got 1"),
    ],
)
def test_what_needs_task_boundaries_is_refused_where_there_are_none(fields: dict[str, object], message: str) -> None:
    check(RunSpec("drift-4"))
    check(RunSpec("nav-4", **fields))
    with pytest.raises(ValueError, match=message):
        check(RunSpec("drift-4", **fields))


def test_only_drifting_tasks_have_no_boundaries_and_every_suite_of_the_square_has_a_note() -> None:
    names = ("nav-2", "reach-2-redefined", "cartpole-2", "drift-2")
    assert [has_boundaries(name) for name in names] == [True, True, True, False]
    assert len({suite_note(name) for name in names}) == 4
