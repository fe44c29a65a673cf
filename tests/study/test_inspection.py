"""What can be known about the inside of memories."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition, UniformMemory
from crystalrl.study.definition import Table
from crystalrl.study.execution import execute
from crystalrl.study.inspection import NOT_STORED, frames, inspect_memory, inspect_run, of_lane
from crystalrl.study.plan import plan
from crystalrl.study.store import Store, read
from tests.inspected_run import ROWS, write_run
from tests.made_up_results import write_results
from tests.study.test_partial import interrupted


def saved(path: Path, count: int = 60, slots: int = 64, **options: object) -> CrystalMemory:
    memory = CrystalMemory(slots, obs=(3,), action=2, anchor={"q": (2,)}, seed=0, **options)  # type: ignore[arg-type]
    random = torch.Generator().manual_seed(0)
    for step in range(count):
        here, there = torch.rand(2, 3, generator=random)
        memory.add(Transition(here, step % 2, float(step), there, False, False))
    memory.save(path)
    return memory


def test_a_run_shows_the_memory_of_the_first_seed_of_every_row_with_phases(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "out")
    (one,), problems = inspect_run(folder)
    assert problems == []
    assert one.name == "crystal, seed 0"
    assert one.stage_steps == (480, 480)
    assert one.starts == (480.0,)
    assert one.params.time_unit == 20
    assert one.memory is not None
    stored = read(folder, "memory")
    mine = (stored["cell"] == "crystal") & (stored["seed"] == 0) & np.isfinite(stored["liquid"])
    np.testing.assert_array_equal(one.memory["crystal"], stored["crystal"][mine])
    assert one.stored == sum(stored[phase][mine][-1] for phase in ("liquid", "glass", "crystal"))
    with pytest.raises(ValueError, match=r"^row: wanted one of crystal, PER, got 'none'"):
        inspect_run(folder, "none")
    assert inspect_run(folder, "PER") == ([], [])


def test_an_unfinished_run_is_shown_as_of_its_last_checkpoint(tmp_path: Path) -> None:
    interrupted(tmp_path, after=1)
    (one,), problems = inspect_run(tmp_path)
    assert problems == []
    assert one.memory is not None
    assert one.memory["step"].max() == 480
    assert one.contents is not None
    assert set(one.contents["step"].tolist()) == {480}


@pytest.mark.parametrize(("seeds", "lanes", "first"), [((0, 1), 1, 0), ((3, 1), 0, 3)])
def test_all_that_is_shown_is_of_one_learner(seeds: tuple[int, ...], lanes: int, first: int, tmp_path: Path) -> None:
    """Learners that are trained apart each record details, and the first need not have the smallest seed."""
    table = Table("Tiny", {"crystal": replace(ROWS["crystal"], seeds=seeds, lanes=lanes)})
    for _ in execute(plan(table.runs()), Store(tmp_path / "out", table.to_toml())):
        pass
    (one,), problems = inspect_run(tmp_path / "out")
    assert (one.name, problems) == (f"crystal, seed {first}", [])
    for found in (one.memory, one.histograms, one.followed, one.contents):
        assert found is not None
        assert set(found["seed"].tolist()) == {first}


def test_results_without_the_memory_table_say_so_once(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "out")
    shutil.rmtree(folder / "memory.parquet")
    assert inspect_run(folder) == ([], [f"{folder}: {NOT_STORED}"])


def test_older_results_have_no_single_experiences(tmp_path: Path) -> None:
    (one,), problems = inspect_run(write_results(tmp_path / "out"))
    assert problems == []
    assert one.memory is not None
    assert (one.followed, one.contents, one.histograms) == (None, None, None)


def test_a_file_shows_its_experiences_and_of_many_the_same_part_each_time(tmp_path: Path) -> None:
    memory = saved(tmp_path / "memory.safetensors")
    one = inspect_memory(tmp_path / "memory.safetensors")
    assert one.contents is not None
    np.testing.assert_array_equal(one.contents["reward"], memory.experiences()["reward"])
    assert (one.stored, one.capacity) == (60, 64)
    first, second = (inspect_memory(tmp_path / "memory.safetensors", most=7).contents for _ in range(2))
    assert first is not None
    assert second is not None
    assert first["slot"].tolist() == second["slot"].tolist() == [60 * k // 7 for k in range(7)]


def test_a_file_of_another_memory_or_lane_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "memory.safetensors"
    UniformMemory(8, obs=(2,), action=2, seed=0).save(path)
    with pytest.raises(ValueError, match=r"wanted a crystal memory, got a UniformMemory, which has no phases"):
        inspect_memory(path)
    saved(path)
    with pytest.raises(ValueError, match=r"^lane: wanted 0 to 0, got 3"):
        inspect_memory(path, lane=3)


def test_parameters_of_a_lane_are_its_own() -> None:
    params = CrystalParams(alpha=(0.1, 0.2))
    assert of_lane(params, 1).alpha == 0.2
    assert of_lane(params, 1).sigma == params.sigma


def test_images_are_recognised() -> None:
    assert frames(torch.zeros(5, 3)) is None
    assert frames({"a": torch.zeros(5, 3)}) is None
    stacked = torch.arange(4).reshape(1, 4, 1, 1).expand(2, 4, 8, 8)
    found = frames(stacked)
    assert found is not None
    assert found.shape == (2, 8, 8)
    assert (found == 3).all()  # the newest of the stack
    planes = torch.zeros(1, 6, 10, 10)
    planes[0, 4, 2, 3] = 1
    found = frames(planes)
    assert found is not None
    assert found[0, 2, 3] == 5
    assert found.sum() == 5
