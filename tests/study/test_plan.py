"""How rows become lane-batched runs."""

from dataclasses import replace

import pytest

from crystalrl.study.definition import Table
from crystalrl.study.plan import plan, stage_order
from crystalrl.study.spec import RunSpec
from crystalrl.suites.tasks import Sequence
from tests.study.own_tasks import CART, OWN


def test_rows_that_differ_only_in_numbers_are_trained_in_one_run() -> None:
    paper = {"suite": "nav-2", "memory": "crystal", "preset": "paper"}
    rows = {
        "paper": RunSpec(**paper),
        "no gate": RunSpec(params={"gate": 0.0}, **paper),
        "faster": RunSpec(params={"alpha": 0.1}, **paper),
        "single buffer": RunSpec(params={"phases": False}, **paper),
    }
    together, single = plan(rows)
    assert [lane.method for lane in together.lanes] == ["paper", "no gate", "faster"]
    assert together.values["params"] == {"gate": (2.0, 0.0, 2.0), "alpha": (0.05, 0.05, 0.1)}
    assert [lane.method for lane in single.lanes] == ["single buffer"]


def test_a_setting_that_is_off_in_one_row_and_a_number_in_another_needs_two_runs() -> None:
    rows = {
        "given": RunSpec("nav-2", memory="crystal", params={"epsilon": 0.3}),
        "automatic": RunSpec("nav-2", memory="crystal"),
    }
    assert len(plan(rows)) == 2


def test_orders_are_distinct_permutations_with_redefined_tasks_last_and_are_trained_together() -> None:
    orders = [stage_order("nav-4-redefined", order) for order in range(24)]
    assert orders[0] == (0, 1, 2, 3, 4, 5)
    assert len(set(orders)) == 24
    assert all(order[4:] == (4, 5) and sorted(order[:4]) == [0, 1, 2, 3] for order in orders)
    (group,) = plan(Table("", {"row": RunSpec("nav-4", seeds=(3, 5), orders=3)}).runs())
    assert [(lane.cell, lane.seed) for lane in group.lanes[:3]] == [
        ("row order=0", 3), ("row order=0", 5), ("row order=1", 3),
    ]  # fmt: skip
    assert [lane.stages for lane in group.lanes[::2]] == [stage_order("nav-4", order) for order in range(3)]
    with pytest.raises(ValueError, match=r"^rows.row: orders: wanted at most 2 for 2 tasks, got 3"):
        Table("", {"row": RunSpec("nav-2", orders=3)})


def test_fields_added_later_do_not_change_the_keys_of_stored_runs() -> None:
    (group,) = plan({"VR": RunSpec("nav-2", steps=160, capacity=64, batch=16)})
    assert group.key == "7ce27623022f"


def test_own_tasks_change_the_key_with_everything_they_say() -> None:
    def key(suite: Sequence) -> str:
        (group,) = plan({"row": RunSpec(suite)})
        return group.key

    changed = [replace(CART, **change) for change in ({"physics": {"length": 0.8}}, {"high": 400.0}, {"flip": True})]
    suites = [Sequence([CART]), Sequence([CART], hidden=True), *(Sequence([task]) for task in changed)]
    assert len({key(suite) for suite in suites}) == len(suites)
    assert key(Sequence([CART])) == key(Sequence([replace(CART)]))


def test_own_tasks_have_their_own_steps_in_every_order_and_from_scratch() -> None:
    (group,) = plan({"row": RunSpec(OWN, steps=480)})
    assert (group.stage_steps, group.steps) == ((480, 240, 480), 1200)
    assert [group.begins(stage) for stage in range(4)] == [0, 480, 720, 1200]
    groups = plan({"row": RunSpec(OWN, steps=480, orders=2)})
    assert [(group.stage_steps, group.lanes[0].stages) for group in groups] == [
        ((480, 240, 480), (0, 1, 2)), ((240, 480, 480), (1, 0, 2)),
    ]  # fmt: skip
    alone = plan({"row": RunSpec(OWN, steps=480, scratch=True)})
    assert [(group.stage_steps, [lane.stages for lane in group.lanes]) for group in alone] == [
        ((480,), [(0,), (2,)]), ((240,), [(1,)]),
    ]  # fmt: skip


def test_a_structure_is_divided_into_runs_of_at_most_the_given_lanes() -> None:
    spec = RunSpec("nav-2", seeds=tuple(range(7)), lanes=3)
    parts = plan({"row": spec})
    assert [[lane.seed for lane in group.lanes] for group in parts] == [[0, 1, 2], [3, 4, 5], [6]]
    assert len({group.key for group in parts}) == 3
    (whole,) = plan({"row": replace(spec, lanes=0)})
    assert len(whole.lanes) == 7
