"""The three classical memories: what they keep, what they draw, how they weigh it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from crystalrl import Memory, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from tests.experience import (
    MEMORIES,
    MIXED,
    PLAIN,
    assert_same_batch,
    assert_same_state,
    feed,
    part_of,
    random_step,
    simple,
    stacked,
)

LEAST_P = 1e-3
SMALL: dict[str, Any] = {"obs": (2,), "action": 4}


def numbers_of(memory: ReplayMemory, lane: int = 0) -> list[int]:
    """The number of the experience in each occupied slot; see `simple`."""
    stored = memory.arena.unpack(memory.arena.rows[lane, : int(memory.ledger.count[lane])])
    return [int(x) for x in stored["obs"][:, 0]]


def weights_of(memory: PrioritizedMemory, lane: int = 0) -> list[float]:
    return memory.ledger.tree.weight[lane, : memory.capacity].tolist()


# --- every memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MEMORIES)
def test_memory_satisfies_the_protocol_and_has_nothing_to_consolidate(kind: type[ReplayMemory]) -> None:
    memory: Memory = kind(20, **SMALL)
    wanted = [name for name in vars(Memory) if not name.startswith("_")]
    assert {"add", "sample", "update", "consolidate", "save", "load", "clear", "check", "due", "nbytes"} <= set(wanted)
    assert all(hasattr(memory, name) for name in wanted)
    feed(memory, 30)
    before = memory.state_dict()
    assert memory.consolidate(lambda batch: batch.reward) is None
    assert memory.due is False
    assert_same_state(before, memory.state_dict())
    assert memory.end_episode().item() == -1


@pytest.mark.parametrize("kind", MEMORIES)
def test_repr_says_what_is_in_it(kind: type[ReplayMemory]) -> None:
    memory = kind(2_000, **SMALL, lanes=1)
    assert kind.__name__ in repr(memory)
    assert "0 of 2,000" in repr(memory)
    assert "obs=(2,), action=4, lanes=1" in repr(memory)


def test_repr_names_the_parameters() -> None:
    assert "alpha=0.7" in repr(PrioritizedMemory(5, **SMALL, alpha=0.7))
    assert "recent=0.25" in repr(ReservoirMemory(5, **SMALL, recent=0.25))


@pytest.mark.parametrize("kind", MEMORIES)
def test_length_grows_to_the_capacity_and_stays(kind: type[ReplayMemory]) -> None:
    memory = kind(7, **SMALL)
    lengths = []
    for number in range(20):
        memory.add(simple(number))
        lengths.append(len(memory))
    assert lengths == [min(k + 1, 7) for k in range(20)]


@pytest.mark.parametrize("kind", MEMORIES)
def test_length_is_that_of_the_fullest_lane(kind: type[ReplayMemory]) -> None:
    memory = kind(9, **PLAIN, lanes=2)
    rng = np.random.default_rng(0)
    for k in range(5):
        memory.add(stacked([[random_step(rng)], [random_step(rng)]], 2), valid=[[True], [k == 0]])
    assert len(memory) == 5


@pytest.mark.parametrize("kind", MEMORIES)
def test_nbytes_counts_payload_and_bookkeeping(kind: type[ReplayMemory]) -> None:
    small, large = (kind(n, obs=(100,), action=4) for n in (1_000, 2_000))
    payload = 2 * 100 * 4 + 8 + 4 + 4
    assert 1_000 * payload <= small.nbytes <= 1_000 * (payload + 64)
    assert 1.9 < large.nbytes / small.nbytes < 2.1
    lanes = kind(1_000, obs=(100,), action=4, lanes=3)
    assert 2.9 < lanes.nbytes / small.nbytes < 3.1


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_batch_is_the_users_own_and_so_is_what_was_added(kind: type[ReplayMemory]) -> None:
    memory = kind(5, **SMALL)
    step = simple(3)
    memory.add(step)
    step.obs.fill(-1)
    step.next_obs.fill(-1)
    batch = memory.sample(4)
    for tensor in (batch.obs, batch.next_obs, batch.reward, batch.weight):
        tensor.fill_(-5)
    again = memory.sample(4)
    assert again.obs.tolist() == [[3.0, 3.0]] * 4
    assert again.next_obs.tolist() == [[4.0, 4.0]] * 4
    assert again.weight.tolist() == [1.0] * 4


@pytest.mark.parametrize("kind", MEMORIES)
def test_clock_counts_valid_steps_and_survives_a_clear(kind: type[ReplayMemory]) -> None:
    memory = kind(5, **SMALL)
    feed(memory, 8)
    memory.add(simple(9), valid=False)
    memory.clear()
    assert memory.time.tolist() == [8]
    assert len(memory) == 0


@pytest.mark.parametrize("kind", MEMORIES)
def test_after_a_clear_only_new_experiences_are_drawn(kind: type[ReplayMemory]) -> None:
    memory = kind(10, **SMALL)
    feed(memory, 30)
    memory.clear()
    feed(memory, 3, first=100)
    for _ in range(20):
        assert set(memory.sample(10).reward.tolist()) <= {100.0, 101.0, 102.0}
    memory.check()


def test_check_names_a_negative_number_of_experiences() -> None:
    memory = UniformMemory(10, **SMALL)
    memory.ledger.number.fill_(-1)
    with pytest.raises(AssertionError, match="negative number"):
        memory.check()


def test_check_names_an_experience_that_cannot_be_drawn() -> None:
    memory = PrioritizedMemory(10, **SMALL)
    feed(memory, 4)
    memory.ledger.tree.set_one(2, 0.0, 0)
    with pytest.raises(AssertionError, match="drawable"):
        memory.check()


@pytest.mark.parametrize("kind", MEMORIES)
def test_numpy_lists_and_tensors_are_stored_alike(kind: type[ReplayMemory]) -> None:
    memories = [kind(10, **SMALL) for _ in range(3)]
    for k in range(5):
        t = simple(k)
        memories[0].add(t)
        memories[1].add(Transition(t.obs.tolist(), t.action, t.reward, t.next_obs.tolist(), t.terminated))
        parts = (torch.as_tensor(x) for x in (t.obs, t.action, t.reward, t.next_obs, t.terminated))
        memories[2].add(Transition(*parts))
    for other in memories[1:]:
        assert_same_state(memories[0].state_dict(), other.state_dict())


# --- lanes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_lane_among_others_equals_that_seed_alone_bit_for_bit(
    backend: str, kind: type[ReplayMemory], n_step: int, mixed: bool
) -> None:
    options: dict[str, Any] = {**(MIXED if mixed else PLAIN), "n_step": n_step, "envs": 2, "context": True}
    seeds = [11, 4, 900]
    together = kind(40, **options, lanes=3, seed=seeds)
    alone = [kind(40, **options, lanes=1, seed=seed) for seed in seeds]
    flat = kind(40, **options, seed=seeds[0])
    rng = np.random.default_rng(1)
    for k in range(100):
        steps = [[random_step(rng, mixed, context=True) for _ in range(2)] for _ in range(3)]
        valid = rng.random((3, 2)) < 0.9
        slots = together.add(stacked(steps, 3), valid=valid)
        for lane in range(3):
            assert torch.equal(slots[lane], alone[lane].add(stacked([steps[lane]], 1), valid=valid[lane : lane + 1])[0])
        assert torch.equal(slots[0], flat.add(stacked([steps[0]], None), valid=valid[0]))
        if k > 10:
            batch = together.sample(32)
            error = rng.normal(size=(3, 32)).astype(np.float32)
            together.update(batch.index, error)
            for lane in range(3):
                one = alone[lane].sample(32)
                assert_same_batch(part_of(batch, lane), part_of(one, 0))
                alone[lane].update(one.index, error[lane : lane + 1])
            first = flat.sample(32)
            assert_same_batch(part_of(batch, 0), first)
            flat.update(first.index, error[0])


@pytest.mark.parametrize("kind", MEMORIES)
def test_lanes_fed_the_same_stream_with_the_same_seed_are_the_same(kind: type[ReplayMemory]) -> None:
    memory = kind(30, **PLAIN, lanes=3, seed=[5, 5, 6])
    rng = np.random.default_rng(2)
    for _ in range(60):
        memory.add(stacked([[random_step(rng)]] * 3, 3))
    batch = memory.sample(30)
    assert_same_batch(part_of(batch, 0), part_of(batch, 1))
    assert batch.index[0].tolist() != batch.index[2].tolist()


# --- uniform --------------------------------------------------------------------------------------------------------


def test_uniform_memory_keeps_the_newest() -> None:
    memory = UniformMemory(10, **SMALL)
    feed(memory, 34)
    assert sorted(numbers_of(memory)) == list(range(24, 34))


@pytest.mark.parametrize("stored", [1, 7, 50])
def test_uniform_draws_are_uniform_over_what_is_stored(backend: str, stored: int) -> None:
    memory = UniformMemory(50, **SMALL)
    feed(memory, stored)
    seen = np.zeros(stored)
    for _ in range(400):
        batch = memory.sample(50)
        np.add.at(seen, batch.index.numpy(), 1)
        assert batch.weight.tolist() == [1.0] * 50
    assert seen.sum() == 20_000
    assert stored == 1 or stats.chisquare(seen).pvalue > LEAST_P


def test_successive_batches_are_independent() -> None:
    memory = UniformMemory(16, **SMALL)
    feed(memory, 16)
    table = np.zeros((16, 16))
    before = memory.sample(16).index.numpy()
    for _ in range(1_000):
        now = memory.sample(16).index.numpy()
        np.add.at(table, (before, now), 1)
        before = now
    assert stats.chi2_contingency(table).pvalue > LEAST_P


# --- prioritized ----------------------------------------------------------------------------------------------------


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
    memory.update(before.index, torch.tensor([9.0]))
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
    memory.update(batch.index, torch.full((4,), 5.0))
    assert weights_of(memory) == [1.0, 1.0, 5.0, 5.0]


def test_a_skipped_entry_does_not_raise_the_weight_of_newcomers() -> None:
    memory = PrioritizedMemory(1, **SMALL, alpha=1.0)
    feed(memory, 1)
    batch = memory.sample(1)
    memory.add(simple(1))
    memory.update(batch.index, torch.tensor([100.0]))
    memory.add(simple(2))
    assert weights_of(memory) == [1.0]


def test_an_entry_drawn_again_after_the_rewriting_counts() -> None:
    memory = PrioritizedMemory(1, **SMALL, alpha=1.0, epsilon=1e-9)
    feed(memory, 1)
    memory.sample(1)
    memory.add(simple(1))
    memory.update(memory.sample(1).index, torch.tensor([3.0]))
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


@pytest.mark.parametrize("kind", [UniformMemory, ReservoirMemory])
def test_update_of_a_memory_without_priorities_changes_nothing(kind: type[ReplayMemory]) -> None:
    memory = kind(6, **SMALL)
    feed(memory, 6)
    batch = memory.sample(6)
    before = memory.state_dict()
    memory.update(batch.index, torch.ones(6))
    assert_same_state(before, memory.state_dict())


# --- reservoir ------------------------------------------------------------------------------------------------------


def reservoir_run(capacity: int, recent: float, given: int, seeds: int) -> ReservoirMemory:
    """Many seeds as lanes, all given the steps 0, 1, 2, …"""
    memory = ReservoirMemory(capacity, **SMALL, recent=recent, lanes=seeds)
    for number in range(given):
        t = simple(number)
        fields = (np.broadcast_to(x, (seeds, 1, *np.shape(x))) for x in (t.obs, t.action, t.reward, t.next_obs))
        memory.add(Transition(*fields, False))
    return memory


@pytest.mark.parametrize(("recent", "given"), [(0.5, 60), (0.25, 200), (0.0, 60), (0.0, 21)])
def test_every_older_experience_is_equally_likely_to_be_kept(recent: float, given: int) -> None:
    capacity, seeds = 20, 3_000
    memory = reservoir_run(capacity, recent, given, seeds)
    window = round(recent * capacity)
    numbers = memory.arena.unpack(memory.arena.rows)["obs"][..., 0].numpy().astype(int)
    seen = np.bincount(numbers.reshape(-1), minlength=given)
    assert (seen[given - window :] == seeds).all()
    older = seen[: given - window]
    room, offered = capacity - window, given - window
    assert older.sum() == seeds * room
    share = room / offered
    spread = ((older - seeds * share) ** 2).sum() / (seeds * share * (1 - share)) * (offered - 1) / offered
    assert stats.chi2.sf(spread, offered - 1) > LEAST_P
    assert stats.chi2.cdf(spread, offered - 1) > LEAST_P


def test_pairs_of_older_experiences_are_kept_together_as_often_as_any_other_pair() -> None:
    seeds, given = 6_000, 12
    memory = reservoir_run(4, 0.0, given, seeds)
    numbers = memory.arena.unpack(memory.arena.rows)["obs"][..., 0].numpy().astype(int)
    together = np.zeros((given, given))
    for row in numbers:
        together[np.ix_(row, row)] += 1
    pairs = together[np.triu_indices(given, 1)]
    probability = (4 * 3) / (given * (given - 1))
    z = (pairs - seeds * probability) / np.sqrt(seeds * probability * (1 - probability))
    assert abs(z).max() < 4


@pytest.mark.parametrize("recent", [0.1, 0.5, 0.9, 1.0])
def test_the_recent_window_is_exact_at_every_step(recent: float) -> None:
    memory = ReservoirMemory(10, **SMALL, recent=recent)
    window = round(10 * recent)
    for number in range(50):
        memory.add(simple(number))
        held = numbers_of(memory)
        assert len(set(held)) == len(held) == min(number + 1, 10)
        assert set(range(max(0, number + 1 - window), number + 1)) <= set(held)
        memory.check()


def test_recent_one_is_first_in_first_out() -> None:
    memory = ReservoirMemory(10, **SMALL, recent=1.0)
    feed(memory, 47)
    assert sorted(numbers_of(memory)) == list(range(37, 47))
    assert set(memory.sample(10).reward.tolist()) <= set(range(37, 47))


def test_recent_zero_tells_which_newcomers_were_not_kept() -> None:
    memory = ReservoirMemory(10, **SMALL, recent=0.0)
    slots = [int(memory.add(simple(k))) for k in range(200)]
    assert slots[:10] == list(range(10))
    kept = sum(slot >= 0 for slot in slots[10:])
    assert 10 < kept < 60
    last = {slot: number for number, slot in enumerate(slots) if slot >= 0}
    assert numbers_of(memory) == [last[slot] for slot in range(10)]


@pytest.mark.parametrize("recent_batch", [0.0, 0.3, 0.5, 1.0])
def test_the_batch_holds_the_declared_share_of_recent_experiences(recent_batch: float) -> None:
    memory = ReservoirMemory(40, **SMALL, recent=0.5, recent_batch=recent_batch)
    feed(memory, 200)
    for size in (1, 7, 40):
        batch = memory.sample(size)
        assert int((batch.reward >= 180).sum()) == round(recent_batch * size)
        assert batch.weight.tolist() == [1.0] * size


def test_all_of_the_batch_is_recent_while_there_is_nothing_older() -> None:
    memory = ReservoirMemory(20, **SMALL, recent=0.5, recent_batch=0.0)
    feed(memory, 10)
    assert set(memory.sample(20).index.tolist()) <= set(range(10))
    feed(memory, 1, first=10)
    assert set(memory.sample(20).reward.tolist()) == {0.0}


def test_within_each_part_draws_are_uniform() -> None:
    memory = ReservoirMemory(30, **SMALL, recent=0.5, recent_batch=0.4)
    feed(memory, 500)
    held = set(numbers_of(memory))
    seen: dict[int, int] = dict.fromkeys(held, 0)
    for _ in range(1_000):
        for number in memory.sample(30).reward.tolist():
            seen[int(number)] += 1
    recent = [seen[n] for n in held if n >= 485]
    older = [seen[n] for n in held if n < 485]
    assert (sum(recent), sum(older)) == (12_000, 18_000)
    assert stats.chisquare(recent).pvalue > LEAST_P
    assert stats.chisquare(older).pvalue > LEAST_P


def test_check_names_a_reservoir_whose_lists_lost_a_slot() -> None:
    memory = ReservoirMemory(10, **SMALL)
    feed(memory, 20)
    memory.ledger.reserved[0, 0] = memory.ledger.reserved[0, 1]
    with pytest.raises(AssertionError, match="reservoir, lane 0"):
        memory.check()


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: PrioritizedMemory(5, **SMALL, alpha=1.5), "alpha: wanted numbers in .0, 1., got 1.5"),
    (lambda: PrioritizedMemory(5, **SMALL, beta=-0.1), "beta: wanted numbers in .0, 1., got -0.1"),
    (lambda: PrioritizedMemory(5, **SMALL, alpha=float("nan")), "alpha.*nan"),
    (lambda: PrioritizedMemory(5, **SMALL, lanes=3, alpha=[0.5, 0.6]), "alpha: wanted one number, or 3.*got 2"),
    (lambda: PrioritizedMemory(5, **SMALL, is_steps=0), "is_steps.*got 0"),
    (lambda: PrioritizedMemory(5, **SMALL, epsilon=0.0), "epsilon.*> 0, got 0.0"),
    (lambda: ReservoirMemory(5, **SMALL, recent=1.01), "recent: wanted a number in .0, 1., got 1.01"),
    (lambda: ReservoirMemory(5, **SMALL, recent_batch=-1), "recent_batch.*got -1"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_parameters_out_of_range_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("recent", [0.0, 0.3, 0.5, 1.0])
def test_a_reservoir_places_one_newcomer_as_it_places_many(recent: float) -> None:
    one, many = (ReservoirMemory(50, obs=(1,), action=3, seed=3, recent=recent) for _ in range(2))
    many._one = False  # the way of several lanes or environments
    for number in range(700):
        here = Transition(np.array([number], np.float32), number % 3, float(number), np.zeros(1, np.float32), False)
        assert int(one.add(here)) == int(many.add(here))
    assert torch.equal(one.arena.rows, many.arena.rows)
    for name in ("recent", "reserved"):  # but for the spare column
        assert torch.equal(getattr(one.ledger, name)[:, :-1], getattr(many.ledger, name)[:, :-1])
