"""Specs: what they refuse, how they travel, and how rows become runs."""

import tomllib
from pathlib import Path

import pytest

from crystalrl.study.catalogue import check
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec, parse_seeds
from crystalrl.study.tables import Table, load_study, study_names, table_from


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
