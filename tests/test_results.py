"""Stored results as DataFrames."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crystalrl import results
from crystalrl.study.definition import Table
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store
from crystalrl.suites.tasks import Sequence, Task
from tests.inspected_run import write_run
from tests.made_up_results import MEANS, write_results
from tests.suites.own_environments import ECHO


def test_the_tables_of_a_folder_are_dataframes_with_the_stored_columns(tmp_path: Path) -> None:
    tables = results.load(write_results(tmp_path / "out"))
    assert list(tables) == ["scores", "curves", "memory"]
    scores = tables["scores"]
    assert list(scores.columns) == ["cell", "method", "seed", "after", "task", "score"]
    final = scores[(scores["after"] == 2) & (scores["seed"] < 1000)].groupby("cell")["score"].mean()
    for cell, (mean, _) in MEANS.items():
        assert final[cell] == pytest.approx(mean + 0.01, abs=1e-6)
    assert tables["memory"].query("cell == 'anchored' and step == 200")["crystal"].tolist() == [2.0] * 3


def test_pandas_alone_reads_the_same_columns(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "out")
    for name, table in results.load(folder).items():
        pd.testing.assert_frame_equal(pd.read_parquet(folder / f"{name}.parquet"), table, check_dtype=False)


def test_a_part_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Not only of the scores: a table about single experiences would silently be too short."""
    folder = write_run(tmp_path / "out")
    for table in ("scores", "contents"):
        part = next((folder / f"{table}.parquet").iterdir())
        whole = part.read_bytes()
        part.write_bytes(whole[:100])
        with pytest.raises(ValueError, match=f"{table}.parquet/{part.name}: wanted a whole part"):
            results.load(folder)
        part.write_bytes(whole)


def test_several_results_folders_are_joined_and_a_missing_table_is_left_out(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.rmtree(write_results(tmp_path / name) / "memory.parquet")
    tables = results.load(tmp_path)
    assert list(tables) == ["scores", "curves"]
    alone = results.load(tmp_path / "one")["scores"]
    assert tables["scores"]["table"].tolist() == np.repeat(["one", "two"], len(alone)).tolist()
    assert len(tables["scores"]) == 2 * len(alone)


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="wanted a folder of results"):
        results.load(tmp_path)


def test_published_results_of_an_earlier_version_are_read() -> None:
    tables = results.load(Path(__file__).parents[1] / "results" / "nav-evidence")
    assert set(tables["scores"]["table"]) >= {"eight", "redefined"}
    assert tables["scores"]["score"].between(0, 1).all()


def test_returns_are_given_in_the_units_of_the_environment(tmp_path: Path) -> None:
    tasks = [Task("five", ECHO, low=-10.0, high=30.0), Task("seven", ECHO, {"length": 7}, low=100.0, high=101.0)]
    own = Sequence([*tasks, Task("won", ECHO, success=True)])  # the reward is 1 in each of five or seven steps
    table = Table("", {"VR": RunSpec(own, steps=16, envs=2, batch=4, capacity=16, episodes=1, points=1)})
    list(execute(plan(table.runs()), Store(tmp_path / "out", table.to_toml())))
    found = results.returns(tmp_path / "out").groupby("task")["return"].agg(["min", "max"])
    assert found.loc[0].tolist() == pytest.approx([5.0, 5.0], abs=1e-5)
    assert found.loc[1].tolist() == pytest.approx([7.0, 7.0], abs=1e-5)
    assert found.loc[2].isna().all()
    assert results.returns(write_results(tmp_path / "nav"))["return"].isna().all()
