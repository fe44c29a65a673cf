"""Environments on shared arrays: sizes that differ, actions that are translated, games from their seed."""

import numpy as np
import torch

from crystalrl.suites.classic import GAMES, suite
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Task
from crystalrl.suites.worker import SPARE, make
from tests.suites.own_environments import ECHO
from tests.suites.policies import random_action


def test_smaller_tasks_are_padded_and_surplus_actions_wrap_around() -> None:
    made = suite("classic-discrete", [0])
    assert (made.sizes.obs, made.action, made.obs) == ((6,), 3, (8,))
    world = made.world(1)
    world.reset(torch.tensor([1]))
    assert world.obs[0, 0, :6].count_nonzero() == 6
    world.reset(torch.tensor([0]))
    assert world.obs[0, 0, 4:].tolist() == [0, 0, 1, 0]
    first = world.step(torch.tensor([[2]])).next_obs
    world.reset(torch.tensor([0]))
    assert torch.equal(world.step(torch.tensor([[0]])).next_obs, first)


def test_games_fill_the_first_channels_and_are_reproducible_from_their_seed() -> None:
    made = suite("minatar-5", [0])
    world, random = made.world(1), torch.Generator().manual_seed(0)
    for stage, game in enumerate(GAMES):
        channels = make(vars(Task(make=f"minatar:{game}"))).observation_shape[2]
        tracks = []
        for _ in range(2):
            random.manual_seed(stage)
            world.reset(torch.tensor([stage]))
            steps = [world.step(random_action(made, 1, 1, random)) for _ in range(150)]
            tracks.append(torch.stack([step.next_obs for step in steps]))
        assert torch.equal(*tracks)
        assert tracks[0][..., :channels].any()
        assert not tracks[0][..., channels:].any()


def test_one_number_controls_every_task_of_classic() -> None:
    made = suite("classic", [0])
    assert (made.sizes.obs, made.action) == ((6,), (1,))
    world = made.world(1)
    for stage, count in ((0, 2), (1, 3)):  # CartPole and Acrobot have discrete actions
        world.reset(torch.tensor([stage]))
        slots = world.pool._slots
        numbers = (np.arange(12, dtype=np.float32) + 0.5) / 6 - 1
        meant = [slots._native(0, np.array([number])) for number in [-1.0, *numbers, 1.0]]
        assert meant == [0, *np.repeat(np.arange(count), 12 // count), count - 1]


def test_an_attribute_that_one_task_sets_does_not_reach_a_task_that_does_not() -> None:
    tasks = [Task("plain", ECHO), Task("doubled", ECHO, physics={"scale": 2.0}), Task("later", ECHO)]
    world = GymSuite([tasks], Sizes((2,), 2), [0], visible=False).world(1)
    seen = []
    for stage in (0, 1, 2, 1):
        world.reset(torch.tensor([stage]))
        seen.append(float(world.step(torch.tensor([[1]])).next_obs[0, 0, 1]))
    assert seen == [1.0, 2.0, 1.0, 2.0]


def test_an_attribute_that_the_environment_does_not_have_ends_the_learner_with_its_name() -> None:
    world = GymSuite([[Task("t", "CartPole-v1", physics={"lenght": 1.0})]], Sizes((4,), 2), [0]).world(1)
    world.reset(torch.tensor([0]))
    (incident,) = world.incidents
    assert incident.fatal
    assert "physics.lenght: wanted an attribute of CartPoleEnv, got none" in incident.what


def test_wrappers_are_applied_one_after_another() -> None:
    place = ECHO.partition(":")[0]
    plus, twice = f"{place}:Plus", f"{place}:Twice"
    for wrappers, wanted in (((plus, twice), 2 * (9 + 100)), ((twice, plus), 2 * 9 + 100), ((), 9)):
        assert make(vars(Task(make=ECHO, wrappers=wrappers))).reset(seed=0)[0][1] == wanted


def test_a_process_keeps_few_environments_that_no_row_uses() -> None:
    tasks = [Task(f"{size}", ECHO, {"size": size}) for size in range(1, 41)]
    world = GymSuite([tasks], Sizes((40,), 2), [0], visible=False).world(4)
    kept = set()
    for stage in range(40):
        world.reset(torch.tensor([stage]))
        slots = world.pool._slots
        assert len(slots.now) == 4
        kept.add(len(slots.spare))
    assert max(kept) == SPARE
    last = [env for env, _ in slots.now.values()]
    world.reset(torch.tensor([39]))
    assert {id(env) for env, _ in slots.now.values()} == {
        id(env) for env in last
    }  # the same task, the same environments
