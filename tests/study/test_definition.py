"""Study files: tables, ablations, what they refuse, and how they are stored."""

import re
import tomllib
from pathlib import Path

import pytest

from crystalrl.study.definition import Table, load_study, study_names, table_from
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.task_files import sequence_from
from crystalrl.study.tuning import load_search
from tests.study.own_tasks import FILE, OWN


def test_every_built_in_study_is_unchanged_by_writing_and_reading_it() -> None:
    for name in study_names():
        for table in load_study(name).values():
            again = table_from(tomllib.loads(table.to_toml()))
            assert again.to_toml() == table.to_toml()
            assert again.rows == table.rows


def test_rows_may_have_any_name() -> None:
    for name in ("κ = 1", "𝕏 \U0001f600", 'a "b" \\ c', "d\ne", ""):
        table = Table("Any", {name: RunSpec("nav-2")})
        assert list(table_from(tomllib.loads(table.to_toml())).rows) == [name]


def test_a_table_refuses_unfair_or_ambiguous_definitions() -> None:
    row = {"suite": "nav-2", "seeds": "0:4"}
    with pytest.raises(ValueError, match=r"^tuning_seeds: wanted seeds that are not reported"):
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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.toml: wanted a TOML file, got no such file$"):
        load_study(str(tmp_path / "none.toml"))


def test_an_ablation_is_a_row_with_a_change_and_all_are_trained_in_one_run() -> None:
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


def test_own_tasks_survive_the_file_of_a_table() -> None:
    made = table_from(tomllib.loads(FILE + "[defaults]\nsteps = 800\n[rows.VR]\n[rows.PER]\nmemory = 'prioritized'\n"))
    assert made.suite == sequence_from(tomllib.loads(FILE))
    text = made.to_toml()
    assert text.count("[[tasks]]") == 3
    assert table_from(tomllib.loads(text)) == made
    assert table_from(tomllib.loads(text)).to_toml() == text
    inside = FILE.replace("[[tasks]]", "[[defaults.tasks]]").replace("hidden = true", "[defaults]\nhidden = true")
    assert table_from(tomllib.loads(inside + "[rows.VR]\n")).suite == made.suite
    once = Table("", {"VR": RunSpec(OWN)})
    assert table_from(tomllib.loads(once.to_toml())) == once


def test_own_tasks_serve_all_tables_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(FILE + "[tables.one.rows.VR]\n[tables.two.rows.VR]\n")
    one, two = load_study(f"{tmp_path}/two.toml").values()
    assert one.suite == two.suite == sequence_from(tomllib.loads(FILE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE + "[rows.VR]\nsuite = 'nav-8'\n", r"^rows.VR: suite: wanted none, because .* \[\[tasks\]\], got 'nav-8'"),
        ("hidden = true\n[rows.VR]\n", r"^hidden: wanted only with \[\[tasks\]\], got it without"),
        (FILE + "[rows.VR]\nenvs = 300\n", r"^rows.VR: tasks.task 2 .*.steps: wanted .* \(300\), got 240"),
        (FILE + "[rows.VR]\norders = 7\n", r"^rows.VR: orders: wanted at most 6 for 3 tasks, got 7"),
    ],
)
def test_own_tasks_that_contradict_the_rest_of_a_table_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table_from(tomllib.loads(text))


def test_studies_in_folders_have_the_name_of_the_folder_too() -> None:
    assert {"demo", "paper/metaworld", "ladder/mw"} <= set(study_names())
    assert set(load_study("paper/metaworld")) == {"main", "matched", "orders"}
    assert load_study("paper/metaworld")["orders"].rows["PER"].orders == 6


def test_numbers_of_a_paper_are_kept_and_checked() -> None:
    rows = {"a": {"suite": "nav-2"}}
    table = table_from({"rows": rows, "paper": {"a": {"AP": 0.71}}})
    assert table_from(tomllib.loads(table.to_toml())).paper == {"a": {"AP": 0.71}}
    for paper, said in (({"b": {}}, "paper: wanted one of a, got 'b'"), ({"a": {"PA": 1}}, "paper.a: wanted one of")):
        with pytest.raises(ValueError, match=said):
            table_from({"rows": rows, "paper": paper})
    with pytest.raises(ValueError, match=r"paper\.a\.AP: wanted a number, got 'high'"):
        table_from({"rows": rows, "paper": {"a": {"AP": "high"}}})


def test_a_table_of_the_paper_gives_its_numbers_by_name() -> None:
    rows = {name: {"suite": "nav-2"} for name in ("VR", "mine")}
    table = table_from({"rows": rows, "paper": "metaworld"})
    assert table.paper == {"VR": {"AP": 0.623, "BT": -0.314}}
    assert table_from(tomllib.loads(table.to_toml())).paper == table.paper
    with pytest.raises(ValueError, match=r"paper: wanted one of .*metaworld"):
        table_from({"rows": rows, "paper": "metawold"})
