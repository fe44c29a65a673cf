"""Files of one part of a table: what was written comes back, and anything else is refused by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crystalrl.study.store import TABLES, as_parquet, read
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
