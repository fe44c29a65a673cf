"""Results on disk: complete or absent, continued, never mixed or duplicated."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pandas import read_parquet
from pyarrow import parquet

from crystalrl.memory.crystal.report import NAMES
from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store, as_parquet, read
from crystalrl.study.table_files import packed, write_part
from tests.made_up_results import assert_same, columns

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}
TABLE = Table("", {"VR": RunSpec(**SMALL), "PER": RunSpec(memory="prioritized", **SMALL)})


def parts(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("*.parquet/*")}


def test_parts_of_both_formats_are_read_as_one_table(both: Path) -> None:
    assert parts(both) == {f"{t}.parquet/part-{k}" for t in TABLES for k in ("one.npz", "two.parquet")}
    scores = read(both, "scores")
    assert scores["score"].tolist() == [0.5, 0.5, 0.25, 0.25]
    assert scores["seed"].tolist() == [0, 0, 1, 1]
    assert set(scores["cell"]) == {"κ = 1"}
    np.testing.assert_array_equal(read(both, "memory")["crystal"], [0.5, np.nan, 0.25, np.nan])


def test_npz_parts_become_parquet_with_the_same_contents(both: Path) -> None:
    before = {table: read(both, table) for table in TABLES}
    assert as_parquet(both) == 3
    assert as_parquet(both) == 0
    assert {path.rsplit(".")[-1] for path in parts(both)} == {"parquet"}
    for table in TABLES:
        assert_same(read(both, table), before[table])
    assert parquet.read_table(both / "scores.parquet")["score"].to_pylist() == [0.5, 0.5, 0.25, 0.25]


def test_all_parts_of_the_memory_table_have_one_schema_whatever_the_memory(tmp_path: Path) -> None:
    """The first part decides which columns pandas reads."""
    store, plain, crystal = Store(tmp_path / "out", "x = 1\n"), columns(0.5, seed=0), columns(0.25, seed=1)
    del plain["memory"]["crystal"]
    store.write("a", plain, "cpu")
    store.write("b", crystal, "cpu")
    whole = read_parquet(tmp_path / "out" / "memory.parquet")
    assert set(NAMES) < set(whole.columns)
    np.testing.assert_array_equal(whole["crystal"], [np.nan, np.nan, 0.25, np.nan])
    np.testing.assert_array_equal(whole["liquid"], [np.nan] * 4)


def test_parts_of_an_earlier_version_are_read_and_get_the_missing_columns(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    store = Store(folder, "x = 1\n")
    for key, seed, more in (("a", 0, {}), ("b", 1, {"crystal": [1.0, 2.0], "former": [3.0, 4.0]})):
        store.write(key, columns(0.5, seed), "cpu")
        old = {name: values for name, values in columns(0.5, seed)["memory"].items() if name in TABLES["memory"]}
        write_part(folder / "memory.parquet" / f"part-{key}", packed({**old, **more}, TABLES["memory"]))
    assert "crystal" not in read_parquet(folder / "memory.parquet").columns
    before = read(folder, "memory")
    np.testing.assert_array_equal(before["former"], [np.nan, np.nan, 3.0, 4.0])
    as_parquet(folder)
    whole, after = read_parquet(folder / "memory.parquet"), read(folder, "memory")
    assert {"former", *NAMES} < set(whole.columns)
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values)


def test_an_interrupted_conversion_duplicates_nothing(both: Path) -> None:
    whole, old = read(both, "scores"), (both / "scores.parquet" / "part-one.npz").read_bytes()
    as_parquet(both)
    (both / "scores.parquet" / "part-one.npz").write_bytes(old)
    assert_same(read(both, "scores"), whole)
    assert as_parquet(both) == 1
    assert_same(read(both, "scores"), whole)


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


def test_one_run_in_two_formats_with_different_contents_is_an_error(
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
def test_a_write_that_fails_anywhere_leaves_no_stored_run(
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


def test_the_same_spec_may_be_written_otherwise(tmp_path: Path) -> None:
    """Earlier versions escaped letters of names that are not ASCII."""
    Store(tmp_path, '[rows."\\u03ba"]\n')
    assert not Store(tmp_path, '[rows."κ"]\n').new


def test_a_folder_of_another_spec_is_refused_and_the_differences_are_named(tmp_path: Path) -> None:
    Store(tmp_path, TABLE.to_toml())
    other = Table("", {**TABLE.rows, "PER": RunSpec(memory="prioritized", **{**SMALL, "steps": 320})})
    with pytest.raises(
        ValueError, match=r"^out: .* rows.PER.steps differ; choose another folder with --out, .* resume"
    ):
        Store(tmp_path, other.to_toml())


def test_a_new_store_without_results_can_be_removed_again_and_no_other(tmp_path: Path) -> None:
    unused, used, later = (Store(tmp_path / name, "x = 1\n") for name in ("unused", "used", "later"))
    used.write("one", columns(0.5, seed=0), "cpu")
    for store in (unused, used, Store(tmp_path / "later", "x = 1\n")):
        store.remove_if_new()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["later", "used"]
    later.remove_if_new()
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


def test_folders_made_for_a_store_are_removed_with_it_but_not_those_that_were_there(tmp_path: Path) -> None:
    Store(tmp_path / "runs/a/b", "x = 1\n").remove_if_new()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").mkdir()
    Store(tmp_path / "runs/a/b", "x = 1\n").remove_if_new()
    assert list(tmp_path.rglob("*")) == [tmp_path / "runs"]


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(ValueError, match=r"^out: .* other files"):
        Store(tmp_path, TABLE.to_toml())


def test_unreadable_parts_can_be_left_out_and_named(both: Path) -> None:
    (both / "scores.parquet" / "part-two.parquet").write_bytes(b"damaged")
    (both / "scores.parquet" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        read(both, "scores")
    problems: list[str] = []
    assert read(both, "scores", problems)["score"].tolist() == [0.5, 0.5]
    assert [problem.split(":")[0].rsplit("/")[-1] for problem in problems] == ["notes.txt", "part-two.parquet"]
