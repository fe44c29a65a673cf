"""The return of an episode raises the utility of its experiences."""

from __future__ import annotations

import numpy as np
import torch

from crystalrl import Batch, CrystalParams, Transition
from tests.memory.crystal.experience import memory_of


def ones(batch: Batch) -> torch.Tensor:
    return torch.ones_like(batch.reward)


def test_an_episodes_return_raises_the_utility_of_its_experiences_only() -> None:
    memory = memory_of(64, CrystalParams.repaired(sigma=0.0, w1=0.0, w2=0.0, w3=0.0), gamma=0.5)
    zero = np.zeros(2, np.float32)

    def live(steps: int) -> None:
        for _ in range(steps):
            memory.add(Transition(zero, 0, 2.0, zero, False))

    live(3)
    memory.end_episode(episode_return=-5.0)
    live(4)
    memory.end_episode(episode_return=1.0)  # the largest possible return is 2/(1 − .5) = 4
    live(2)
    memory.end_episode(episode_return=400.0)
    live(1)
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :10].tolist() == [0.0] * 3 + [0.25] * 4 + [1.0] * 2 + [0.0]


def test_the_boost_belongs_to_the_environment_whose_episode_ended() -> None:
    memory = memory_of(64, CrystalParams.repaired(sigma=0.0, w1=0.0, w2=0.0, w3=0.0), gamma=0.5, envs=2)
    zeros = np.zeros((2, 2), np.float32)
    transition = Transition(zeros, np.zeros(2, int), np.full(2, 2.0), zeros, np.zeros(2, bool))
    memory.add(transition)
    memory.add(transition)
    memory.end_episode(np.array([False, True]), np.array([4.0, 2.0]))
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :4].tolist() == [0.0, 0.5, 0.0, 0.5]
