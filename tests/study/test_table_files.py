"""Files of one part of a table: what was written comes back, and anything else is refused by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crystalrl.study.store import TABLES, as_parquet, read
from crystalrl.study.table_files import has_parquet, packed, read_part, same, write_part
from tests.made_up_results import assert_same


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


def test_a_part_with_other_contents_is_named(both: Path) -> None:
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


KINDS = {"cell": "s", "seed": "i", "score": "f"}


@pytest.mark.parametrize("with_parquet", [True, False])
def test_a_part_comes_back_as_it_was_written(
    tmp_path: Path, without_pyarrow: Callable[[], None], with_parquet: bool
) -> None:
    if not with_parquet:
        without_pyarrow()
    assert has_parquet() == with_parquet
    given = {"cell": ["κ = 1", ""], "seed": [3, -4], "score": [0.1, np.nan], "extra": [1.0, 2.0]}
    arrays = packed(given, KINDS)
    path = write_part(tmp_path / "part-1.5", arrays)
    assert path.name == "part-1.5" + (".parquet" if with_parquet else ".npz")
    found = read_part(path, KINDS, more=True)
    assert same(found, arrays)
    assert [str(found[name].dtype) for name in given] == ["object", "int32", "float32", "float32"]
    with pytest.raises(ValueError, match=r"part-1.5.* the columns cell, seed, score, got cell, extra, score, seed"):
        read_part(path, KINDS)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^columns: wanted one length, got seed \(2,\), score \(1,\)"):
        packed({"seed": [1, 2], "score": [0.5]}, KINDS)


def test_parts_are_the_same_only_with_the_same_columns_and_rows() -> None:
    one = packed({"seed": [1], "score": [np.nan]}, KINDS)
    assert same(one, packed({"seed": [1], "score": [np.nan]}, KINDS))
    for other in ({"seed": [2], "score": [np.nan]}, {"seed": [1], "score": [0.0]}, {"seed": [1]}, {"seed": [1, 1]}):
        assert not same(one, packed(other, KINDS))
