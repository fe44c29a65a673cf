"""The archive: which experiences are kept of a task, and what a sample holds."""

from dataclasses import replace

import pytest
import torch

from crystalrl import UniformMemory
from crystalrl.methods import Method
from crystalrl.methods.archive import Archive
from crystalrl.study.run import Trainer
from tests.methods.runs import play, setup_of, trainer


class Keeper(Method):
    """Nothing but an archive."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive

    def stored(self, slots: torch.Tensor) -> None:
        self.archive.stored(slots)


def archived(size: int = 40) -> tuple[Trainer, Archive]:
    made = trainer("none")
    archive = Archive(setup_of(made), size)
    made.method = Keeper(archive)
    return made, archive


def test_of_each_task_its_own_experiences_are_kept() -> None:
    made, archive = archived()
    for task in range(3):
        made.begin(task)
        play(made, 10, idle=10)
        kept = archive.extend()
        assert (kept.context == task).all()
        assert torch.equal(kept.index[0], torch.arange(40 * task, 40 * (task + 1)))
    drawn = archive.sample(600)
    counts = torch.stack([(drawn.context == task).float().mean(1) for task in range(3)])
    assert ((counts > 0.25) & (counts < 0.42)).all()


def test_the_kept_ones_are_a_uniform_sample_of_the_tasks_experiences() -> None:
    made, archive = archived(size=4000)
    made.begin(0)
    play(made, 10, idle=10)  # 40 experiences
    kept = archive.extend()
    stored = made.memory.arena.fields()["obs"]
    for lane in range(2):
        shares = torch.stack([(kept.obs[lane] == one).all(-1).float().mean() for one in stored[lane, :40]])
        assert float(shares.min()) > 0.5 / 40
        assert float(shares.max()) < 2.0 / 40


def test_an_empty_archive_says_so() -> None:
    made, archive = archived()
    assert archive.known_empty
    made.begin(0)
    play(made, 2, idle=2)
    archive.extend()
    assert not archive.known_empty


def test_no_size_is_refused() -> None:
    made, _ = archived()
    with pytest.raises(ValueError, match="size: wanted a whole number ≥ 1, got 0"):
        Archive(setup_of(made), 0)


def test_frames_that_are_stored_once_are_refused() -> None:
    frames = {"obs": (4, 10, 10), "obs_dtype": torch.uint8, "action": 3, "lanes": 2, "stack": 4}
    setup = replace(setup_of(trainer("none")), memory=UniformMemory(16, **frames))
    with pytest.raises(ValueError, match="wanted a memory that stores whole observations, got stack = 4"):
        Archive(setup, 4)
