"""Environments on shared arrays: sizes that differ, actions that are translated, games from their seed."""

import numpy as np
import torch

from crystalrl.suites.classic import GAMES, suite
from crystalrl.suites.worker import make
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
        channels = make({"make": f"minatar:{game}", "options": {}}).observation_shape[2]
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
