"""Specs: what they refuse, how they travel, and how rows become runs."""

import re
import tomllib
from pathlib import Path

import pytest

from crystalrl.study.budget import capacity_for, nbytes_at
from crystalrl.study.definition import Table, load_study, study_names, table_from
from crystalrl.study.plan import plan, stage_order
from crystalrl.study.registry import check
from crystalrl.study.spec import RunSpec, parse_seeds
from crystalrl.study.tuning import load_search


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "^steps: wanted a whole number ≥ 1, got 0"),
        ({"steps": 4}, "^steps: wanted at least one per environment"),
        ({"seeds": (1, 2, 1)}, "^seeds: wanted each once, got \\[1\\]"),
        ({"seeds": ()}, "^seeds: wanted at least one"),
        ({"batch": 2000}, "^batch: wanted at most the capacity"),
        ({"epsilon": 1.5}, "^epsilon: wanted a number in \\[0, 1\\]"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunSpec(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": "crytal"}, "^memory: .*did you mean 'crystal'"),
        ({"method": "ewcc"}, "^method: .*did you mean 'ewc'"),
        ({"suite": "nav8"}, "^suite: .*did you mean 'nav-8'"),
        ({"suite": "nav-1-redefined"}, "^suite: "),
        ({"preset": "paper"}, "^preset: uniform has none"),
        ({"memory": "crystal", "preset": "papr"}, "^preset: .*did you mean 'paper'"),
        ({"memory": "crystal", "params": {"alpa": 1}}, "^params.alpa: .*did you mean 'alpha'"),
        ({"memory": "crystal", "params": {"alpha": [0.1, -1]}}, "^params.alpha: wanted a number from 0"),
        ({"method": "ewc", "method_params": {"strength": -1.0}}, "^method_params.strength: wanted numbers ≥ 0"),
        ({"method": "ewc", "method_params": {"strength": "much"}}, "^method_params: .* got {'strength': 'much'}"),
        ({"agent_params": {"widht": 3}}, "^agent_params.widht: .*did you mean 'width'"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_known_one(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(RunSpec(**fields))


def test_seeds_are_written_as_ranges_and_lists() -> None:
    assert parse_seeds("0:3,7") == (0, 1, 2, 7)
    assert parse_seeds(5) == (5,)
    with pytest.raises(ValueError, match=r"^seeds: wanted such as 0:16"):
        parse_seeds("few")


def test_every_study_of_the_library_survives_its_own_file() -> None:
    for name in study_names():
        for table in load_study(name).values():
            again = table_from(tomllib.loads(table.to_toml()))
            assert again.to_toml() == table.to_toml()
            assert again.runs() == table.runs()


def test_a_table_refuses_what_would_make_it_unfair_or_unclear() -> None:
    row = {"suite": "nav-2", "seeds": "0:4"}
    with pytest.raises(ValueError, match=r"^tuning_seeds: wanted others than the reported ones"):
        table_from({"tuning_seeds": "3:5", "rows": {"VR": row}})
    with pytest.raises(ValueError, match=r"^rows: wanted one suite for all"):
        table_from({"rows": {"a": row, "b": {"suite": "nav-3"}}})
    with pytest.raises(ValueError, match=r"^reference: .*did you mean 'VR'"):
        table_from({"reference": "VRR", "rows": {"VR": row}})
    with pytest.raises(ValueError, match=r"^rows.VR: field: .*did you mean 'steps'"):
        table_from({"rows": {"VR": {**row, "stepz": 3}}})
    with pytest.raises(ValueError, match=r"^study: .*did you mean 'rows'"):
        table_from({"row": {}})


def test_only_rows_with_listed_values_run_on_the_tuning_seeds() -> None:
    tuned = RunSpec("nav-2", method="ewc", method_params={"strength": [1.0, 2.0]})
    table = Table("", {"VR": RunSpec("nav-2"), "EWC": tuned}, tuning_seeds=(1000, 1001))
    assert {name: spec.seeds for name, spec in table.runs().items()} == {"VR": (0,), "EWC": (0, 1000, 1001)}


def test_rows_that_differ_in_numbers_alone_learn_in_one_run() -> None:
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


def test_what_is_off_in_one_row_and_a_number_in_another_is_not_one_run() -> None:
    rows = {
        "given": RunSpec("nav-2", memory="crystal", params={"epsilon": 0.3}),
        "automatic": RunSpec("nav-2", memory="crystal"),
    }
    assert len(plan(rows)) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^study: no file"):
        load_study(str(tmp_path / "none.toml"))


def test_an_ablation_is_another_row_with_a_change_and_all_learn_in_one_run() -> None:
    rows = {
        "paper": {"suite": "nav-2", "memory": "crystal", "preset": "paper", "params": {"every": 200, "alpha": 0.1}},
        "no gate": {"of": "paper", "params": {"gate": 0.0}},
        "no gate, seed 5": {"of": "no gate", "seeds": 5},
    }
    table = table_from({"rows": rows, "defaults": {"steps": 80}})
    assert table.rows["no gate, seed 5"].params == {"every": 200, "alpha": 0.1, "gate": 0.0}
    assert table.rows["no gate, seed 5"].seeds == (5,)
    (group,) = plan(table.runs())
    assert group.values["params"]["gate"] == (2.0, 0.0, 0.0)
    assert table_from(tomllib.loads(table.to_toml())).rows == table.rows
    for parent in ("papper", "no gate"):
        with pytest.raises(ValueError, match=r"^rows.no gate: of: wanted one of"):
            table_from({"rows": {**rows, "no gate": {"of": parent}}})


def test_one_at_a_time_varies_every_listed_value_from_the_first_ones_and_is_never_tuned() -> None:
    spec = RunSpec("nav-2", memory="crystal", grid="each", params={"alpha": [0.2, 0.1, 0.4], "kappa": [0.1, 0.3]})
    assert {label: (s.params["alpha"], s.params["kappa"]) for label, s in spec.cells().items()} == {
        "": (0.2, 0.1), "alpha=0.1": (0.1, 0.1), "alpha=0.4": (0.4, 0.1), "kappa=0.3": (0.2, 0.3),
    }  # fmt: skip
    table = Table("", {"row": spec}, tuning_seeds=(1000,))
    assert table.runs()["row"].seeds == (0,)
    (group,) = plan(table.runs())
    assert len(group.lanes) == 4


def test_orders_are_different_permutations_that_redefine_tasks_last_and_learn_side_by_side() -> None:
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


@pytest.mark.parametrize(
    "design", [{"memory": "uniform"}, {"memory": "crystal", "preset": "anchored"}, {"method": "distill"}]
)
def test_a_budget_gives_the_largest_capacity_that_fits(design: dict[str, str]) -> None:
    spec = RunSpec("nav-4", budget_mb=0.5, batch=32, **design)
    found = capacity_for(spec)
    assert nbytes_at(found, found.capacity) <= 500_000 < nbytes_at(found, found.capacity + 1)
    assert Table("", {"row": spec}).runs()["row"] == found
    with pytest.raises(
        ValueError, match=r"^budget_mb: wanted at least 0.0.. MB, which 32 experiences need, got 0.0001"
    ):
        capacity_for(RunSpec("nav-4", budget_mb=1e-4, batch=32, **design))


def test_what_came_later_leaves_the_keys_of_stored_runs_as_they_were() -> None:
    (group,) = plan({"VR": RunSpec("nav-2", steps=160, capacity=64, batch=16)})
    assert group.key == "7ce27623022f"


def test_the_files_in_the_documentation_are_studies_and_searches(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    study, search = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    table = table_from(tomllib.loads(study))
    together, ewc = plan(table.runs())
    assert {lane.method for lane in together.lanes} == {"anchored", "no anchors", "sensitivity"}
    assert len(ewc.lanes) == 3 * (16 + 8)
    path = tmp_path / "search.toml"
    path.write_text(search)
    assert load_search(path).trials == 20
