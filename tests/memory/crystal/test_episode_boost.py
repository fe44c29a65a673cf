"""The return of an episode raises the utility of its experiences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Transition
from tests.memory.crystal.experience import memory_of, stream


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


GAMMA = 0.5
STILL = CrystalParams(sigma=0.0, w1=0.0, w2=0.0, w3=0.0, boost=True)


def play(memory: CrystalMemory, rewards: list[float], ends: bool = True) -> None:
    """One episode; its last step terminates it if it ends."""
    zero = np.zeros(2, np.float32)
    for number, reward in enumerate(rewards, 1):
        memory.add(Transition(zero, 0, reward, zero, ends and number == len(rewards)))


def test_the_memory_counts_the_discounted_return_itself() -> None:
    memory = memory_of(64, STILL, gamma=GAMMA)
    play(memory, [2.0, 2.0])  # 2 + .5 · 2 = 3 of at most 2/(1 − .5) = 4
    play(memory, [-1.0, 1.0])
    play(memory, [0.0, 2.0, 0.0])
    play(memory, [2.0], ends=False)
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :8].tolist() == [0.75] * 2 + [0.0] * 2 + [0.25] * 3 + [0.0]
    memory.end_episode()  # the open episode: 2 of 4
    memory.consolidate(ones)
    assert memory.ledger.utility[0, 7].item() == 0.5


def test_a_given_return_replaces_the_counted_one_also_after_the_last_step_was_added() -> None:
    memory = memory_of(64, STILL, gamma=GAMMA)
    play(memory, [2.0, 2.0])
    play(memory, [2.0, 2.0])
    memory.end_episode(episode_return=1.0)
    play(memory, [2.0], ends=False)
    memory.end_episode(episode_return=3.0)
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :5].tolist() == [0.75] * 2 + [0.25] * 2 + [0.75]


def test_nothing_is_counted_without_the_boost() -> None:
    memory = memory_of(64, replace(STILL, boost=False), gamma=GAMMA)
    play(memory, [2.0, 2.0])
    assert not any("episode." in name for name in memory.state_dict())
    assert float(memory.episodes.total) == float(memory.episodes.largest) == 0


@pytest.mark.parametrize("n_step", [1, 3])
def test_an_interrupted_episode_goes_on_bit_for_bit(n_step: int) -> None:
    options = {"gamma": 0.9, "envs": 2, "n_step": n_step}
    memory, again = (memory_of(90, STILL, **options) for _ in range(2))
    steps = list(stream(40, envs=2))
    for transition in steps[:17]:
        memory.add(transition)
    assert int(memory.episodes.steps.min()) > 0
    again.load_state_dict(memory.state_dict())
    for transition in steps[17:]:
        for each in (memory, again):
            each.add(transition)
    loaded = again.state_dict()
    for name, tensor in memory.state_dict().items():
        if ".episode." in name or name in ("ledger.slot.boost", "crystal.started", "memory.slot.rows"):
            assert torch.equal(tensor, loaded[name]), name
    assert int((memory.ledger.boost > 0).sum()) > 10


def test_states_from_before_returns_were_counted_still_load() -> None:
    memory, again = (memory_of(64, STILL, gamma=GAMMA) for _ in range(2))
    play(memory, [1.0, 2.0], ends=False)
    again.load_state_dict({name: x for name, x in memory.state_dict().items() if ".episode." not in name})
    for each in (memory, again):
        play(each, [1.0])
        play(each, [1.0, 1.0])
    # 1 + 1 + .25 of 2/.5; the older state knows the largest reward, not the return so far
    assert memory.ledger.boost[0, :5].tolist() == [0.5625] * 3 + [0.375] * 2
    assert again.ledger.boost[0, :5].tolist() == [0.25] * 3 + [0.375] * 2


def test_lanes_count_their_own_returns_and_invalid_steps_are_no_steps() -> None:
    memory = memory_of(32, STILL, gamma=GAMMA, lanes=2, envs=2)
    zeros, none = np.zeros((2, 2, 2), np.float32), np.zeros((2, 2), bool)
    first = np.array([[1.0, 2.0], [4.0, 3.0]])
    memory.add(Transition(zeros, np.zeros((2, 2), int), first, zeros, none))
    valid, ended = np.array([[True, False], [True, True]]), np.array([[True, True], [False, True]])
    memory.add(Transition(zeros, np.zeros((2, 2), int), first, zeros, ended), valid=valid)
    memory.consolidate(ones)  # at most 2/.5 and 4/.5
    assert memory.ledger.utility[0, :3].tolist() == [1.5 / 4, 0.0, 1.5 / 4]
    assert memory.ledger.utility[1, :4].tolist() == [0.0, 4.5 / 8, 0.0, 4.5 / 8]
