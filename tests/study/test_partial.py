"""Results so far of runs that are not finished."""

from pathlib import Path

import numpy as np

from crystalrl.study.execution import execute
from crystalrl.study.partial import Partial, unfinished
from crystalrl.study.plan import plan
from crystalrl.study.run import Scored
from crystalrl.study.store import Store
from tests.inspected_run import TABLE


def interrupted(folder: Path, after: int) -> list[Scored]:
    """Train the first run until a task is complete; the scores told by then."""
    told = []
    for _, event in execute(plan(TABLE.runs()), Store(folder, TABLE.to_toml())):
        if isinstance(event, Scored):
            told.append(event)
            if event.after == after:
                break
    return told


def test_the_scores_of_an_unfinished_run_are_those_of_its_last_checkpoint(tmp_path: Path) -> None:
    assert unfinished(tmp_path) == []
    told = interrupted(tmp_path, after=1)
    (run,) = unfinished(tmp_path)
    assert (run.stage, run.learners, run.cells) == (1, 2, ("crystal",))
    assert run.learnt("crystal") == [0]
    np.testing.assert_array_equal(run.so_far("crystal"), told[-1].score[:, :1])
    assert run.so_far("nobody").size == 0
    assert len(run.tables["followed"]["c"]) > 10
    stored = run.tables["scores"]
    last = stored["after"] == 1
    np.testing.assert_array_equal(stored["score"][last], told[-1].score.numpy().ravel())


def test_a_redefined_task_counts_in_its_latest_definition() -> None:
    """Three stages, of which the last redefines the first."""
    after, task = (at.ravel() for at in np.indices((4, 3)))
    lane = {"cell": np.full(12, "a"), "seed": np.zeros(12, int)}
    scores = {**lane, "after": after, "task": task, "score": after + task / 4}
    curves = {"cell": np.full(3, "a"), "task": np.arange(3)}
    run = Partial("key", {"scores": scores, "curves": curves}, stage=3, saved=0.0, tasks=(0, 1, 0))
    assert run.so_far("a").tolist() == [[1.0, 2 + 0.25 / 2, 3 + (0.25 + 0.5) / 2]]


def test_a_checkpoint_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    interrupted(tmp_path, after=1)
    (path,) = (tmp_path / "checkpoints").glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:100])
    assert unfinished(tmp_path) == []
