"""Results on disk: whole or not at all, continued and never mixed or doubled."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import parquet

from crystalrl.report.text import number as text_number
from crystalrl.report.text import order_table
from crystalrl.study import execution as execute_module
from crystalrl.study.analysis import load_results
from crystalrl.study.definition import Table
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.recorder import Record
from crystalrl.study.run import Built, Consolidated, Curve, Progress, Scored
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store, as_parquet, note_versions, read

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}
TABLE = Table("", {"VR": RunSpec(**SMALL), "PER": RunSpec(memory="prioritized", **SMALL)})


def columns(score: float, seed: int, cell: str = "κ = 1") -> dict[str, dict[str, list[Any]]]:
    """Two rows of each table."""
    one = {"s": cell, "i": 3, "f": score}
    made = {table: {name: [one[kind]] * 2 for name, kind in kinds.items()} for table, kinds in TABLES.items()}
    for table in made.values():
        table["seed"] = [seed] * 2
    made["memory"]["crystal"] = [score, np.nan]
    return made


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, one stored as .npz, one as parquet."""
    store = Store(tmp_path / "out", "x = 1\n")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pyarrow", None)
        store.write("one", columns(0.5, seed=0), "cpu")
    store.write("two", columns(0.25, seed=1), "cpu")
    return tmp_path / "out"


def parts(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("*.parquet/*")}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], strict=True)


def test_parts_of_both_kinds_are_read_as_one_table(both: Path) -> None:
    assert parts(both) == {f"{t}.parquet/part-{k}" for t in TABLES for k in ("one.npz", "two.parquet")}
    scores = read(both, "scores")
    assert scores["score"].tolist() == [0.5, 0.5, 0.25, 0.25]
    assert scores["seed"].tolist() == [0, 0, 1, 1]
    assert set(scores["cell"]) == {"κ = 1"}
    np.testing.assert_array_equal(read(both, "memory")["crystal"], [0.5, np.nan, 0.25, np.nan])


def test_npz_parts_become_parquet_with_the_same_contents_that_others_can_read(both: Path) -> None:
    before = {table: read(both, table) for table in TABLES}
    assert as_parquet(both) == 3
    assert as_parquet(both) == 0
    assert {path.rsplit(".")[-1] for path in parts(both)} == {"parquet"}
    for table in TABLES:
        assert_same(read(both, table), before[table])
    assert parquet.read_table(both / "scores.parquet")["score"].to_pylist() == [0.5, 0.5, 0.25, 0.25]


def test_a_conversion_that_was_interrupted_doubles_nothing(both: Path) -> None:
    whole, old = read(both, "scores"), (both / "scores.parquet" / "part-one.npz").read_bytes()
    as_parquet(both)
    (both / "scores.parquet" / "part-one.npz").write_bytes(old)
    assert_same(read(both, "scores"), whole)
    assert as_parquet(both) == 1
    assert_same(read(both, "scores"), whole)


def test_without_pyarrow_a_parquet_part_is_refused_by_name(both: Path, without_pyarrow: Callable[[], None]) -> None:
    without_pyarrow()
    assert as_parquet(both) == 0
    with pytest.raises(ValueError, match=r"scores.parquet.part-two.parquet: .* needs pyarrow"):
        read(both, "scores")


@pytest.mark.parametrize("name", ["part-one.npz", "part-two.parquet"])
def test_a_damaged_part_is_named_and_never_read_as_something_else(both: Path, name: str) -> None:
    path = both / "scores.parquet" / name
    whole, content = read(both, "scores"), path.read_bytes()
    for length in {*range(0, len(content), 37), len(content) - 1}:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"scores.parquet.{name}: wanted a whole part"):
            read(both, "scores")
    said = []
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        try:
            assert_same(read(both, "scores"), whole)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 20
    assert all(name in message for message in said)


def test_a_part_of_something_else_is_named(both: Path) -> None:
    path = both / "scores.parquet" / "part-one.npz"
    np.savez(path, cell=np.array(["a"]), seed=np.array([1]))
    with pytest.raises(
        ValueError, match=r"part-one.npz: wanted .* cell, method, seed, after, task, score, got cell, s"
    ):
        read(both, "scores")
    kinds = {"s": "a", "i": 1, "f": 0.5}
    np.savez(path, **{name: np.array([kinds[kind]]) for name, kind in TABLES["scores"].items()} | {"seed": np.ones(1)})
    with pytest.raises(ValueError, match=r"part-one.npz: wanted .* got seed of type float64"):
        read(both, "scores")
    path.rename(path.with_name("notes.txt"))
    with pytest.raises(ValueError, match=r"notes.txt: wanted nothing but parts"):
        read(both, "scores")


def test_a_table_without_the_part_of_a_finished_run_is_refused(both: Path) -> None:
    (both / "curves.parquet" / "part-two.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"curves.parquet: wanted a part for .*part-two.parquet"):
        read(both, "curves")


def test_the_same_cell_and_seed_in_two_parts_is_an_error(both: Path) -> None:
    store = Store(both, "x = 1\n")
    store.write("one", columns(0.5, seed=0), "cpu")
    with pytest.raises(ValueError, match=r"part-one.npz: wanted the same scores"):
        store.write("one", columns(0.75, seed=0), "cpu")
    store.write("three", columns(0.5, seed=1), "cpu")
    for table in TABLES:
        with pytest.raises(ValueError, match=rf"{table}.parquet.part-two.* got 'κ = 1', seed 1, as in .*part-three"):
            read(both, table)


def test_one_run_in_two_kinds_with_other_contents_is_an_error(
    both: Path, tmp_path: Path, without_pyarrow: Callable[[], None]
) -> None:
    without_pyarrow()
    Store(tmp_path / "other", "x = 1\n").write("two", columns(0.75, seed=1), "cpu")
    copied = Path("scores.parquet") / "part-two.npz"
    (tmp_path / "other" / copied).rename(both / copied)
    sys.modules.pop("pyarrow")
    for look in (lambda: read(both, "scores"), lambda: as_parquet(both)):
        with pytest.raises(ValueError, match=r"part-two.parquet: wanted the same as in part-two.npz"):
            look()


@pytest.mark.parametrize("failing", range(1, 9))
def test_a_write_that_fails_anywhere_leaves_nothing_behind_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The disk is full at the n-th of eight syncs: of a file and of its folder, for the versions and three tables."""
    store, calls, sync = Store(tmp_path / "out", "x = 1\n"), [], os.fsync

    def full_disk(number: int) -> None:
        calls.append(number)
        if len(calls) == failing:
            raise OSError("no space left")
        sync(number)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="no space"):
            store.write("one", columns(0.5, seed=0), "cpu")
    if failing < 8:
        assert not store.has("one")
        with pytest.raises(FileNotFoundError, match="found none"):
            read(tmp_path / "out", "scores")
    store.write("one", columns(0.5, seed=0), "cpu")
    assert [len(read(tmp_path / "out", table)["seed"]) for table in TABLES] == [2, 2, 2]


def test_an_interrupted_study_goes_on_where_it_stopped_and_ends_with_the_same_scores(tmp_path: Path) -> None:
    groups = plan(TABLE.runs())
    interrupted = Store(tmp_path / "a", TABLE.to_toml())
    for number, event in execute(groups, interrupted):
        if number == 1 and isinstance(event, Progress) and event.done > 200:
            break
    assert [interrupted.has(group.key) for group in groups] == [True, False]
    again = {number for number, _ in execute(groups, Store(tmp_path / "a", TABLE.to_toml()))}
    assert again == {1}
    list(execute(groups, Store(tmp_path / "b", TABLE.to_toml())))
    for table in TABLES:
        assert_same(read(tmp_path / "a", table), read(tmp_path / "b", table))
        for part in (tmp_path / "a" / f"{table}.parquet").iterdir():
            assert part.read_bytes() == (tmp_path / "b" / f"{table}.parquet" / part.name).read_bytes()


def test_where_pyarrow_is_missing_a_study_goes_on_that_began_where_it_is_not(
    tmp_path: Path, without_pyarrow: Callable[[], None]
) -> None:
    groups = plan(TABLE.runs())
    list(execute(groups[:1], Store(tmp_path, TABLE.to_toml())))
    without_pyarrow()
    assert {number for number, _ in execute(groups, Store(tmp_path, TABLE.to_toml()))} == {1}
    assert sorted(path.suffix for path in (tmp_path / "scores.parquet").iterdir()) == [".npz", ".parquet"]


def test_cells_that_another_part_holds_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, TABLE.to_toml())
    store.write("elsewhere", columns(0.5, seed=0, cell="PER"), "cpu")
    monkeypatch.setattr(execute_module, "run", lambda *given: pytest.fail("trained"))
    with pytest.raises(ValueError, match=r"got 'PER', seed 0, as in .*part-elsewhere"):
        list(execute(plan(TABLE.runs()), store))


@pytest.mark.parametrize("every_episode", [False, True])
def test_the_memory_table_has_a_row_for_every_consolidation_of_every_learner(
    tmp_path: Path, every_episode: bool
) -> None:
    params = {"every": 80, "every_episode": every_episode}
    spec = RunSpec(memory="crystal", preset="paper", seeds=(3, 5), params=params, **SMALL)
    groups = plan({"row": spec})
    told = [e for _, e in execute(groups, Store(tmp_path, "")) if isinstance(e, Consolidated)]
    assert every_episode or [event.done for event in told] == [80, 160, 240, 320]
    memory = read(tmp_path, "memory")
    begun = memory["step"] == 0
    assert memory["seed"][begun].tolist() == [3, 5]
    assert (memory["nbytes"] == memory["nbytes"][0]).all()
    for lane, seed in enumerate((3, 5)):
        mine = (memory["seed"] == seed) & ~begun
        due = [event for event in told if event.values["evaluated"][lane] > 0]
        assert memory["step"][mine].tolist() == [event.done for event in due]
        assert memory["task"][mine].tolist() == [(event.done - 1) // 160 for event in due]
        for name in told[0].values:
            np.testing.assert_array_equal(memory[name][mine], np.float32([e.values[name][lane] for e in due]))


def test_a_folder_of_another_spec_is_refused_with_the_names_of_what_differs(tmp_path: Path) -> None:
    Store(tmp_path, TABLE.to_toml())
    other = Table("", {**TABLE.rows, "PER": RunSpec(memory="prioritized", **{**SMALL, "steps": 320})})
    with pytest.raises(ValueError, match=r"^out: .* rows.PER.steps differ"):
        Store(tmp_path, other.to_toml())


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(ValueError, match=r"^out: .* other files"):
        Store(tmp_path, TABLE.to_toml())


def test_orders_are_read_as_they_were_learnt_and_counted_per_seed(tmp_path: Path) -> None:
    """A made-up learner: .9 on the task it learnt last, .5 on what it learnt before; order 1 gives a bit more."""
    spec = RunSpec(**{**SMALL, "suite": "nav-3", "seeds": (4, 6), "orders": 2})
    table = Table("", {"VR": spec})
    store, (group,) = Store(tmp_path, table.to_toml()), plan(table.runs())
    record = Record(group)
    record.take(Built(1000))
    stages = np.array([lane.stages for lane in group.lanes])
    bonus = np.array([[0.01 * lane.seed + 0.05 * lane.cell.endswith("1")] for lane in group.lanes])
    for after in range(4):
        score = np.zeros((4, 3))
        np.put_along_axis(score, stages[:, :after], 0.5, axis=1)
        np.put_along_axis(score, stages[:, max(after - 1, 0) : after], 0.9, axis=1)
        record.take(Scored(after, torch.as_tensor(score + bonus)))
    for stage in range(3):
        record.take(Curve(stage, 160, torch.full((4,), 0.1 * stage)))
    store.write(group.key, record.tables(), "cpu")
    (row,) = load_results(tmp_path).rows
    cell = row.chosen
    assert cell.stored == ("VR order=0", "VR order=1")
    assert cell.R[:, 3] == pytest.approx(np.array([[0.5, 0.5, 0.9]]) + bonus, abs=1e-6)
    assert cell.curve[:, :, 0] == pytest.approx(np.array([[0.0, 0.1, 0.2]] * 4))
    assert cell.metrics["BT"] == pytest.approx([-0.4, -0.4])
    assert cell.by_order["AP"] == pytest.approx(1.9 / 3 + np.array([[0.04, 0.09], [0.06, 0.11]]))
    assert cell.metrics["AP"] == pytest.approx(cell.by_order["AP"].mean(axis=1))
    assert cell.final.shape == (2, 6)
    (line,) = order_table(load_results(tmp_path)).lines
    assert line[:3] == ["VR", "2", text_number(0.05 / 2**0.5)]


def test_every_machine_that_took_part_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "versions.json"
    for device in ("cuda (A)", "cpu (B)", "cuda (A)"):
        note_versions(path, {"torch": "2.0", "device": device})
    assert json.loads(path.read_text()) == {"torch": "2.0", "device": "cuda (A) and cpu (B)"}
