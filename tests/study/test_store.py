"""Results on disk: whole or not at all, continued and never mixed."""

from pathlib import Path

import numpy as np
import pytest

from crystalrl.study import store as store_module
from crystalrl.study.execute import execute
from crystalrl.study.plan import plan
from crystalrl.study.run import Progress
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store, read
from crystalrl.study.tables import Table

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}
TABLE = Table("", {"VR": RunSpec(**SMALL), "PER": RunSpec(memory="prioritized", **SMALL)})


def columns(score: float) -> dict[str, dict[str, list[object]]]:
    one = {"s": "a", "i": 3, "f": score}
    return {table: {name: [one[kind]] for name, kind in named.items()} for table, named in TABLES.items()}


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "out", "x = 1\n")
    store.write("one", columns(0.5), "cpu")
    store.write("two", columns(0.25), "cpu")
    scores = read(tmp_path / "out", "scores")
    assert scores["score"].tolist() == [0.5, 0.25]
    assert scores["cell"].tolist() == ["a", "a"]
    assert scores["seed"].tolist() == [3, 3]


def test_a_write_that_fails_leaves_nothing_behind_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "out", "x = 1\n")

    def full_disk(*args: object, **more: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(store_module.np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space"):
        store.write("one", columns(0.5), "cpu")
    assert not store.has("one")
    with pytest.raises(FileNotFoundError, match="found none"):
        read(tmp_path / "out", "scores")


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
    for table in ("scores", "curves"):
        ours, theirs = read(tmp_path / "a", table), read(tmp_path / "b", table)
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_folder_of_another_spec_is_refused_with_the_names_of_what_differs(tmp_path: Path) -> None:
    Store(tmp_path, TABLE.to_toml())
    other = Table("", {**TABLE.rows, "PER": RunSpec(memory="prioritized", **{**SMALL, "steps": 320})})
    with pytest.raises(ValueError, match=r"^out: .* rows.PER.steps differ"):
        Store(tmp_path, other.to_toml())


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(ValueError, match=r"^out: .* other files"):
        Store(tmp_path, TABLE.to_toml())
