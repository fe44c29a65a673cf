"""Workers: the same steps as in this process, and the effects of a crash, a hang or an exception."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Scored, Trainer, run
from crystalrl.study.spec import RunSpec
from crystalrl.suites.classic import suite
from crystalrl.suites.gym import GymSuite, GymWorld
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Task
from crystalrl.suites.workers import MAX_FAILURES, Incident

MAKE = "tests.suites.bad_environments:Bad"


def bad_suite(workers: int, how: str, at: int = 4, where: Path | None = None, lanes: int = 2) -> GymSuite:
    """The task of lane 1 fails; the others count to ten."""
    good = Task("good", MAKE, {"how": "never", "at": 0})
    bad = Task("bad", MAKE, {"how": how, "at": at, "where": str(where or "")})
    stages = [[bad if lane == 1 else good] for lane in range(lanes)]
    return GymSuite(stages, Sizes((2,), 2), list(range(lanes)), workers=workers)


def begun(made: GymSuite, envs: int = 2, timeout: float = 60.0) -> GymWorld:
    world = made.world(envs)
    world.pool.timeout = timeout
    world.reset(torch.zeros(len(made.seeds), dtype=torch.int64))
    return world


@pytest.mark.parametrize("name", ["pendulum-2", "classic-discrete", pytest.param("minatar-5", marks=pytest.mark.slow)])
def test_workers_step_as_this_process_does(name: str) -> None:
    worlds = []
    for workers in (0, 2):
        made = suite(name, [3, 4])
        made.workers = workers
        worlds.append(made.world(2))
    random = torch.Generator().manual_seed(0)
    for stage in range(2):
        for world in worlds:
            world.reset(torch.full((2,), stage))
        for _ in range(60):
            wanted = made.action
            box = torch.rand(2, 2, *(wanted if isinstance(wanted, tuple) else ()), generator=random)
            action = (box * wanted).long() if isinstance(wanted, int) else 2 * box - 1
            here, there = (world.step(action) for world in worlds)
            for field in ("obs", "reward", "next_obs", "terminated", "truncated"):
                assert torch.equal(getattr(here, field), getattr(there, field)), field
            assert torch.equal(worlds[0].obs, worlds[1].obs)


@pytest.mark.parametrize(
    ("how", "workers", "said"),
    [
        ("raise", 0, "raised ArithmeticError: the sky fell down"),
        ("raise", 2, "raised ArithmeticError: the sky fell down"),
        ("exit", 2, "crashed with exit code 17"),
        ("hang", 2, "hung"),
    ],
)
def test_a_failure_is_reported_with_lane_and_task_and_truncates_the_episode(how, workers, said, tmp_path) -> None:
    world = begun(bad_suite(workers, how, where=tmp_path / "done"), envs=1, timeout=3.0)
    go = torch.zeros(2, 1, dtype=torch.int64)
    steps = [deepcopy(world.step(go)) for _ in range(14)]
    (incident,) = world.incidents
    assert (incident.lane, incident.env, incident.task) == (1, 0, "bad")
    assert incident.what.startswith(said)
    age = torch.stack([step.next_obs[:, 0, 0] for step in steps])
    cut = torch.stack([step.truncated[:, 0] for step in steps])
    assert age[:, 0].tolist() == [*range(1, 11), 1, 2, 3, 4]  # the other lane never noticed
    assert cut[:, 0].nonzero().flatten().tolist() == [9]
    assert age[:, 1].tolist() == [1, 2, 3, 3, *range(1, 11)]
    assert cut[:, 1].nonzero().flatten().tolist() == [3, 13]
    assert float(steps[3].reward[1, 0]) == 0
    assert not torch.stack([step.terminated for step in steps]).any()
    seeds = {float(step.obs[1, 0, 1]) for step in steps}
    assert len(seeds) == 2  # another episode, not the same again


def test_steps_that_a_worker_finished_before_it_died_are_kept(tmp_path: Path) -> None:
    """One worker, four rows: the third kills it after the first two have stepped."""
    world = begun(bad_suite(1, "exit", where=tmp_path / "done"))
    go = torch.zeros(2, 2, dtype=torch.int64)
    for _ in range(3):
        world.step(go)
    step = world.step(go)
    assert step.next_obs[..., 0].tolist() == [[4, 4], [3, 3]]
    assert step.reward.tolist() == [[1, 1], [0, 0]]
    assert step.truncated.all()
    assert (world.obs[..., 0] == 0).all()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_environment_that_always_fails_ends_its_lane_and_no_other(workers: int) -> None:
    world = begun(bad_suite(workers, "raise" if workers == 0 else "exit", at=1), envs=1)
    go = torch.zeros(2, 1, dtype=torch.int64)
    steps = [deepcopy(world.step(go)) for _ in range(MAX_FAILURES + 4)]
    assert [incident.fatal for incident in world.incidents] == [*[False] * (MAX_FAILURES - 1), True]
    last = world.incidents[-1]
    assert (last.lane, last.env, last.step) == (1, 0, 1)
    assert last.what.startswith(f"failed {MAX_FAILURES} times in a row: ")
    assert world.pool.lost == {1}
    still = steps[MAX_FAILURES:]
    assert all(float(step.next_obs[1, 0, 0]) == 0 and not bool(step.truncated[1]) for step in still)
    age = [int(step.next_obs[0, 0, 0]) for step in still]
    assert age == [*range(age[0], age[0] + 4)]


LIES = {
    "nan reward": "reward: wanted finite numbers, got nan",
    "huge reward": "reward: wanted finite numbers, got inf",
    "inf observation": "observation: wanted finite numbers, got -inf",
    "nan at the end": "observation: wanted finite numbers, got nan",
    "long observation": "observation: wanted the shape (2,), got (4,)",
    "short observation": "observation: wanted the shape (2,), got (1,)",
}


@pytest.mark.parametrize(("how", "workers"), [*((how, 0) for how in LIES), ("nan reward", 2), ("inf observation", 2)])
def test_data_that_cannot_be_learnt_from_ends_the_lane_and_leaves_the_others_alone(how: str, workers: int) -> None:
    bad, good = (begun(bad_suite(workers, kind, at=4)) for kind in (how, "never"))
    go = torch.zeros(2, 2, dtype=torch.int64)
    for number in range(25):
        one, other = bad.step(go), good.step(go)
        for field in ("obs", "reward", "next_obs", "terminated", "truncated"):
            assert torch.equal(getattr(one, field)[0], getattr(other, field)[0]), field
            assert bool(torch.isfinite(getattr(one, field)).all())
        assert bool(one.truncated[1].all()) == (number == 3)
        assert bool(torch.isfinite(bad.obs).all())
    (incident,) = bad.incidents  # the first of the lane's two environments; both fail in the same step
    assert (incident.lane, incident.env, incident.task, incident.step, incident.fatal) == (1, 0, "bad", 4, True)
    assert incident.what == LIES[how]
    bad.reset(torch.zeros(2, dtype=torch.int64))
    assert not bool(bad.step(go).truncated.any())
    assert len(bad.incidents) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_that_cannot_start_ends_its_lane(workers: int) -> None:
    made = bad_suite(workers, "never")
    made.stages[1][0] = replace(made.stages[1][0], options={"unknown": 1})
    world = begun(made)
    (incident,) = world.incidents
    assert (incident.lane, incident.env, incident.step, incident.fatal) == (1, 0, 0, True)
    assert incident.what.startswith("could not start: raised TypeError: ")
    assert world.step(torch.zeros(2, 2, dtype=torch.int64)).reward.tolist() == [[1, 1], [0, 0]]


def test_a_study_reports_a_crash_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAD_FILE", str(tmp_path / "done"))
    fields = {"seeds": (0, 1), "steps": 400, "capacity": 300, "batch": 32, "envs": 2, "episodes": 2, "warmup": 50}
    (group,) = plan({"row": RunSpec("cartpole-2", **fields)})
    trainer, good = Trainer(group, torch.device("cpu")), suite("cartpole-2", [0, 1])
    crashing = [
        [replace(task, make="tests.suites.bad_environments:crashing_cartpole") for task in s] for s in good.stages
    ]
    bad = GymSuite(crashing, good.sizes, [0, 1], workers=2)
    trainer.world, trainer.evaluator = bad.world(2), bad.evaluator(2)
    events = list(run(group, "cpu", trainer))
    (incident,) = [event for event in events if isinstance(event, Incident)]
    assert incident.task.startswith("task 2")
    assert "exit code 9" in incident.what
    assert [event.after for event in events if isinstance(event, Scored)] == [0, 1, 2]
