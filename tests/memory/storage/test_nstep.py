"""n-step returns, worked out by hand. γ = 1/2, so every number is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Transition, UniformMemory
from tests.experience import simple

GAMMA = 0.5


def memory_of(n: int, **options: Any) -> UniformMemory:
    return UniformMemory(50, obs=(2,), action=4, n_step=n, gamma=GAMMA, **options)


def contents(memory: UniformMemory) -> list[tuple[float, float, float, float]]:
    """(first number, reward, next number, discount) of each slot; see `simple`."""
    stored = memory.arena.unpack(memory.arena.rows[0, : len(memory)])
    columns = stored["obs"][:, 0], stored["reward"], stored["next_obs"][:, 0], stored["discount"]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_one_step_is_stored_at_once_as_it_came() -> None:
    memory = memory_of(1)
    assert memory.add(simple(3)).item() == 0
    assert memory.add(simple(4, ends=True)).item() == 1
    assert memory.add(simple(5, cut=True)).item() == 2
    assert contents(memory) == [(3, 3, 4, 0.5), (4, 4, 5, 0.0), (5, 5, 6, 0.5)]


def test_a_window_closes_with_its_third_reward() -> None:
    memory = memory_of(3)
    assert memory.add(simple(1)).tolist() == [-1, -1, -1]
    assert memory.add(simple(2)).tolist() == [-1, -1, -1]
    assert len(memory) == 0
    assert memory.add(simple(3)).tolist() == [0, -1, -1]
    assert memory.add(simple(4)).tolist() == [1, -1, -1]
    assert contents(memory) == [(1, 1 + 2 / 2 + 3 / 4, 4, 1 / 8), (2, 2 + 3 / 2 + 4 / 4, 5, 1 / 8)]


def test_termination_closes_all_windows_and_nothing_is_bootstrapped() -> None:
    memory = memory_of(3)
    memory.add(simple(1))
    memory.add(simple(2))
    assert memory.add(simple(3, ends=True)).tolist() == [0, 1, 2]
    assert contents(memory) == [(1, 2.75, 4, 0.0), (2, 3.5, 4, 0.0), (3, 3.0, 4, 0.0)]


def test_truncation_closes_all_windows_and_each_bootstraps_over_its_own_length() -> None:
    memory = memory_of(3)
    memory.add(simple(1))
    memory.add(simple(2))
    assert memory.add(simple(3, cut=True)).tolist() == [0, 1, 2]
    assert contents(memory) == [(1, 2.75, 4, 1 / 8), (2, 3.5, 4, 1 / 4), (3, 3.0, 4, 1 / 2)]


def test_a_step_both_terminated_and_truncated_is_terminated() -> None:
    memory = memory_of(2)
    memory.add(simple(1, ends=True, cut=True))
    assert contents(memory) == [(1, 1.0, 2, 0.0)]


def test_windows_do_not_reach_over_the_end_of_an_episode() -> None:
    memory = memory_of(3)
    memory.add(simple(1, ends=True))
    memory.add(simple(10))
    memory.add(simple(11))
    memory.add(simple(12))
    assert contents(memory) == [(1, 1.0, 2, 0.0), (10, 10 + 11 / 2 + 12 / 4, 13, 1 / 8)]


def test_end_episode_closes_what_is_open_as_truncated() -> None:
    memory = memory_of(3)
    memory.add(simple(1))
    memory.add(simple(2))
    assert memory.end_episode().tolist() == [0, 1, -1]
    assert contents(memory) == [(1, 2.0, 3, 1 / 4), (2, 2.0, 3, 1 / 2)]
    assert memory.end_episode().tolist() == [-1, -1, -1]
    memory.add(simple(7))
    assert len(memory) == 2


def test_end_episode_of_a_one_step_memory_has_nothing_to_close() -> None:
    memory = memory_of(1)
    memory.add(simple(1))
    assert memory.end_episode().item() == -1
    assert len(memory) == 1


def two_environments(a: int, b: int, ends: tuple[bool, bool] = (False, False)) -> Transition:
    obs = np.array([[a, a], [b, b]], np.float32)
    return Transition(obs, np.array([0, 0]), np.array([a, b], np.float32), obs + 1, np.array(ends))


def test_each_environment_has_its_own_windows() -> None:
    memory = memory_of(2, envs=2)
    assert memory.add(two_environments(1, 101)).tolist() == [[-1, -1], [-1, -1]]
    assert memory.add(two_environments(2, 102, ends=(True, False))).tolist() == [[0, 1], [2, -1]]
    assert contents(memory) == [(1, 2.0, 3, 0.0), (2, 2.0, 3, 0.0), (101, 152.0, 103, 0.25)]
    assert memory.end_episode(np.array([True, False])).tolist() == [[-1, -1], [-1, -1]]
    assert memory.end_episode(np.array([False, True])).tolist() == [[-1, -1], [3, -1]]


def test_what_is_not_valid_neither_opens_nor_extends_a_window() -> None:
    memory = memory_of(2, envs=2)
    memory.add(two_environments(1, 101))
    assert memory.add(two_environments(50, 102), valid=[False, True]).tolist() == [[-1, -1], [0, -1]]
    assert memory.add(two_environments(2, 60), valid=[True, False]).tolist() == [[1, -1], [-1, -1]]
    assert contents(memory) == [(101, 152.0, 103, 0.25), (1, 2.0, 3, 0.25)]
    assert memory.time.tolist() == [4]


def test_an_episode_end_that_is_not_valid_ends_nothing() -> None:
    memory = memory_of(3)
    memory.add(simple(1))
    assert memory.add(simple(99, ends=True), valid=False).tolist() == [-1, -1, -1]
    memory.add(simple(2))
    assert memory.add(simple(3)).tolist() == [0, -1, -1]
    assert contents(memory) == [(1, 2.75, 4, 1 / 8)]


def test_lanes_have_their_own_windows() -> None:
    memory = memory_of(2, lanes=2)
    t = two_environments(1, 101)
    step = Transition(
        t.obs[:, None], t.action[:, None], t.reward[:, None], t.next_obs[:, None], np.array([[True], [False]])
    )
    assert memory.add(step).tolist() == [[[0, -1]], [[-1, -1]]]


def test_context_and_action_are_those_of_the_first_step() -> None:
    memory = memory_of(2, context=True)
    memory.add(simple(1, context=7))
    memory.add(simple(2, context=8))
    batch = memory.sample(1)
    assert batch.context.tolist() == [7]
    assert batch.action.tolist() == [1]


def test_clear_forgets_open_windows() -> None:
    memory = memory_of(3)
    memory.add(simple(1))
    memory.add(simple(2))
    memory.clear()
    assert memory.add(simple(3)).tolist() == [-1, -1, -1]
    assert memory.end_episode().tolist() == [0, -1, -1]
    assert contents(memory) == [(3, 3.0, 4, 0.5)]


@pytest.mark.parametrize("gamma", [0.99, 0.9, 1.0, 0.0])
def test_returns_are_summed_in_float64_before_they_are_stored(gamma: float) -> None:
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=40).astype(np.float32)
    memory = UniformMemory(50, obs=(2,), action=4, n_step=10, gamma=gamma)
    for k, reward in enumerate(rewards):
        t = simple(k)
        memory.add(Transition(t.obs, t.action, reward, t.next_obs, False))
    stored = memory.arena.unpack(memory.arena.rows[0, : len(memory)])
    for k in range(len(memory)):
        wanted = sum(gamma**j * float(rewards[k + j]) for j in range(10))
        assert stored["reward"][k].item() == np.float32(wanted)
        assert stored["discount"][k].item() == np.float32(gamma**10)


def test_check_names_a_window_that_is_overdue() -> None:
    memory = memory_of(2)
    memory.check()
    memory.windows.length.fill_(2)
    with pytest.raises(AssertionError, match="n-step"):
        memory.check()


def test_what_add_returns_says_where_the_experience_is() -> None:
    memory = memory_of(3)
    seen: dict[int, float] = {}
    for k in range(30):
        slots = memory.add(simple(k, cut=k % 7 == 6))
        first = k - (len(slots[slots >= 0]) - 1) if k % 7 == 6 else k - 2
        for j, slot in enumerate(slots[slots >= 0].tolist()):
            seen[slot] = first + j
    assert {slot: row[0] for slot, row in enumerate(contents(memory))} == seen
    assert torch.equal(memory.time, torch.tensor([30]))


def test_rewards_whose_sum_is_too_large_for_float32_are_refused_with_nothing_changed() -> None:
    memory = UniformMemory(10, obs=(2,), action=4, n_step=3, gamma=1.0)
    step = Transition(np.zeros(2, np.float32), 0, 3e38, np.zeros(2, np.float32), False)
    memory.add(step)
    before = memory.state_dict()
    with pytest.raises(ValueError, match="n-step sum"):
        memory.add(step)
    after = memory.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
