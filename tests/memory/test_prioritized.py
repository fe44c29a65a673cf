"""Prioritized replay: what is drawn how often, and how it is weighted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from crystalrl import PrioritizedMemory
from tests.experience import PLAIN, SMALL, assert_same_state, feed, random_step, simple, stacked

LEAST_P = 1e-3


def weights_of(memory: PrioritizedMemory, lane: int = 0) -> list[float]:
    return memory.ledger.tree.weight[lane, : memory.capacity].tolist()


def test_priorities_decide_how_often_an_experience_is_drawn(backend: str) -> None:
    memory = PrioritizedMemory(64, **SMALL, alpha=0.7)
    feed(memory, 64)
    td_error = np.random.default_rng(0).normal(size=64)
    memory.update(torch.arange(64), td_error)
    seen = np.zeros(64)
    for _ in range(1_000):
        np.add.at(seen, memory.sample(64).index.numpy(), 1)
    weight = (np.abs(td_error) + 1e-6) ** 0.7
    assert stats.chisquare(seen, weight / weight.sum() * seen.sum()).pvalue > LEAST_P


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_importance_weights_follow_the_formula(backend: str, alpha: float, beta: float) -> None:
    memory = PrioritizedMemory(100, **SMALL, alpha=alpha, beta=beta)
    feed(memory, 60)
    td_error = np.random.default_rng(0).normal(size=60) * 3
    memory.update(torch.arange(60), td_error)
    draw_weight = (np.abs(td_error) + 1e-6) ** alpha
    batch = memory.sample(50)
    probability = (draw_weight / draw_weight.sum())[batch.index.numpy()]
    wanted = (60 * probability) ** -beta
    np.testing.assert_allclose(batch.weight.numpy(), wanted / wanted.max(), rtol=1e-5)
    assert batch.weight.max() == 1
    assert batch.weight.dtype == torch.float32


@pytest.mark.parametrize(("steps", "beta"), [(10, 0.46), (55, 0.73), (100, 1.0), (250, 1.0)])
def test_beta_rises_with_environment_steps_and_stops_at_one(steps: int, beta: float) -> None:
    memory = PrioritizedMemory(10, **SMALL, alpha=1.0, beta=0.4, is_steps=100)
    feed(memory, steps)
    td_error = np.linspace(0.5, 5, 10)
    memory.update(torch.arange(10), td_error)
    batch = memory.sample(10)
    share = ((td_error + 1e-6) / (td_error + 1e-6).sum())[batch.index.numpy()]
    wanted = (10 * share) ** -beta
    np.testing.assert_allclose(batch.weight.numpy(), wanted / wanted.max(), rtol=1e-5)


def test_annealing_counts_valid_steps_of_all_environments_per_lane() -> None:
    memory = PrioritizedMemory(40, **PLAIN, lanes=2, envs=2, beta=0.0, is_steps=20, alpha=1.0)
    rng = np.random.default_rng(0)
    for _ in range(10):
        steps = [[random_step(rng) for _ in range(2)] for _ in range(2)]
        memory.add(stacked(steps, 2), valid=[[True, True], [True, False]])
    index = torch.tensor([[0, 1], [0, 1]])
    memory.update(index, torch.tensor([[1.0, 9.0], [1.0, 9.0]]))
    batch = memory.sample(40)
    for lane, (beta, count) in enumerate([(1.0, 20), (0.5, 10)]):
        weight = np.array([1.0, 9.0] + [1.0] * (count - 2))
        wanted = (count * weight[batch.index[lane].numpy()] / weight.sum()) ** -beta
        np.testing.assert_allclose(batch.weight[lane].numpy(), wanted / wanted.max(), rtol=1e-5)


def test_a_new_experience_gets_the_largest_weight_seen_so_far() -> None:
    memory = PrioritizedMemory(4, **SMALL, alpha=1.0, epsilon=0.5)
    feed(memory, 2)
    assert weights_of(memory) == [1.0, 1.0, 0.0, 0.0]
    memory.update(torch.tensor([0, 1]), torch.tensor([-7.0, 0.25]))
    memory.add(simple(2))
    assert weights_of(memory) == [7.5, 0.75, 7.5, 0.0]
    memory.update(torch.tensor([0, 2]), torch.tensor([0.0, 0.0]))
    feed(memory, 2, first=3)
    assert weights_of(memory) == [7.5, 0.75, 0.5, 7.5]


def test_small_errors_do_not_lower_the_weight_of_newcomers_below_one() -> None:
    memory = PrioritizedMemory(4, **SMALL, alpha=1.0)
    feed(memory, 2)
    memory.update(torch.tensor([0, 1]), torch.tensor([0.25, 0.125]))
    memory.add(simple(2))
    assert weights_of(memory)[2] == 1.0


def test_sign_of_the_error_does_not_matter() -> None:
    one, other = (PrioritizedMemory(4, **SMALL) for _ in range(2))
    for memory, sign in ((one, 1), (other, -1)):
        feed(memory, 4)
        memory.update(torch.arange(4), sign * torch.tensor([1.0, -2.0, 3.0, 0.5]))
    assert_same_state(one.state_dict(), other.state_dict())


def test_an_update_that_answers_a_draw_from_before_a_clear_is_skipped(backend: str) -> None:
    memory = PrioritizedMemory(1, obs=(2,), action=4, alpha=1.0, epsilon=1e-9)
    memory.add(simple(0))
    before = memory.sample(1)
    memory.clear()
    memory.add(simple(1))
    memory.update(before, torch.tensor([9.0]))
    assert float(memory.ledger.tree.weight[0, 0]) == 1.0


def test_of_duplicates_in_one_update_the_last_wins(backend: str) -> None:
    memory = PrioritizedMemory(4, **SMALL, alpha=1.0, epsilon=1e-9)
    feed(memory, 4)
    memory.update(torch.tensor([2, 0, 2, 2]), torch.tensor([9.0, 3.0, 5.0, 2.0]))
    assert weights_of(memory) == [3.0, 1.0, 2.0, 1.0]
    memory.check()


def test_alpha_and_beta_may_differ_between_lanes() -> None:
    alphas, betas = [0.0, 0.5, 1.0], [1.0, 0.2, 0.0]
    memory = PrioritizedMemory(4, **PLAIN, lanes=3, alpha=alphas, beta=betas, epsilon=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(4):
        memory.add(stacked([[random_step(rng)] for _ in range(3)], 3))
    td_error = torch.tensor([[1.0, 4.0, 9.0, 16.0]]).repeat(3, 1)
    memory.update(torch.arange(4).repeat(3, 1), td_error)
    assert weights_of(memory, 0) == [1.0, 1.0, 1.0, 1.0]
    assert weights_of(memory, 1) == [1.0, 2.0, 3.0, 4.0]
    assert weights_of(memory, 2) == [1.0, 4.0, 9.0, 16.0]
    batch = memory.sample(4)
    for lane in range(3):
        share = np.array(weights_of(memory, lane))
        wanted = (4 * share[batch.index[lane].numpy()] / share.sum()) ** -betas[lane]
        np.testing.assert_allclose(batch.weight[lane].numpy(), wanted / wanted.max(), rtol=1e-5)


def test_entries_rewritten_since_the_draw_are_skipped(backend: str) -> None:
    memory = PrioritizedMemory(4, **SMALL, alpha=1.0, epsilon=1e-9)
    feed(memory, 4)
    batch = memory.sample(4)
    while set(batch.index.tolist()) < {0, 1, 2, 3}:
        batch = memory.sample(4)
    feed(memory, 2, first=4)
    memory.update(batch, torch.full((4,), 5.0))
    assert weights_of(memory) == [1.0, 1.0, 5.0, 5.0]


def test_a_skipped_entry_does_not_raise_the_weight_of_newcomers() -> None:
    memory = PrioritizedMemory(1, **SMALL, alpha=1.0)
    feed(memory, 1)
    batch = memory.sample(1)
    memory.add(simple(1))
    memory.update(batch, torch.tensor([100.0]))
    memory.add(simple(2))
    assert weights_of(memory) == [1.0]


def test_an_entry_drawn_again_after_the_rewriting_counts() -> None:
    memory = PrioritizedMemory(1, **SMALL, alpha=1.0, epsilon=1e-9)
    feed(memory, 1)
    memory.sample(1)
    memory.add(simple(1))
    memory.update(memory.sample(1), torch.tensor([3.0]))
    assert weights_of(memory) == [3.0]


def test_an_index_straight_from_add_counts() -> None:
    memory = PrioritizedMemory(4, **SMALL, alpha=1.0, epsilon=1e-9)
    for error in (2.0, 3.0, 4.0, 5.0, 6.0):
        memory.update(memory.add(simple(int(error)))[None], torch.tensor([error]))
    assert weights_of(memory) == [6.0, 3.0, 4.0, 5.0]


def test_an_experience_without_error_can_still_be_drawn() -> None:
    memory = PrioritizedMemory(2, **SMALL, alpha=1.0, epsilon=0.01)
    feed(memory, 2)
    memory.update(torch.tensor([0, 1]), torch.tensor([0.0, 0.03]))
    seen = np.bincount(np.concatenate([memory.sample(2).index.numpy() for _ in range(2_000)]), minlength=2)
    assert stats.chisquare(seen, seen.sum() * np.array([0.2, 0.8])).pvalue > LEAST_P


def test_repr_names_the_exponents() -> None:
    assert "alpha=0.7" in repr(PrioritizedMemory(5, **SMALL, alpha=0.7))


def test_check_names_an_experience_that_cannot_be_drawn() -> None:
    memory = PrioritizedMemory(10, **SMALL)
    feed(memory, 4)
    memory.ledger.tree.set(torch.tensor([[2]]), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.uint8))
    with pytest.raises(AssertionError, match="drawable"):
        memory.check()


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: PrioritizedMemory(5, **SMALL, alpha=1.5), "alpha: wanted numbers in .0, 1., got 1.5"),
    (lambda: PrioritizedMemory(5, **SMALL, beta=-0.1), "beta: wanted numbers in .0, 1., got -0.1"),
    (lambda: PrioritizedMemory(5, **SMALL, alpha=float("nan")), "alpha.*nan"),
    (lambda: PrioritizedMemory(5, **SMALL, lanes=3, alpha=[0.5, 0.6]), "alpha: wanted one number, or 3.*got 2"),
    (lambda: PrioritizedMemory(5, **SMALL, is_steps=0), "is_steps.*got 0"),
    (lambda: PrioritizedMemory(5, **SMALL, epsilon=0.0), "epsilon.*> 0, got 0.0"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_parameters_out_of_range_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_priority_floor_that_float32_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^epsilon: wanted .*got 1e-50"):
        PrioritizedMemory(10, **SMALL, alpha=1.0, epsilon=1e-50)
    PrioritizedMemory(10, **SMALL, alpha=0.5, epsilon=1e-50)
