"""What holds for every memory: its protocol, its length, its lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Memory, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from tests.experience import (
    MEMORIES,
    MIXED,
    PLAIN,
    SMALL,
    assert_same_batch,
    assert_same_state,
    feed,
    part_of,
    random_step,
    simple,
    stacked,
)
from tests.memory.refusals import begun, refused

NAN, INF = float("nan"), float("inf")


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


@pytest.mark.parametrize("kind", [UniformMemory, ReservoirMemory])
def test_update_of_a_memory_without_priorities_changes_nothing(kind: type[ReplayMemory]) -> None:
    memory = kind(6, **SMALL)
    feed(memory, 6)
    batch = memory.sample(6)
    before = memory.state_dict()
    memory.update(batch, torch.ones(6))
    assert_same_state(before, memory.state_dict())


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
            together.update(batch, error)
            for lane in range(3):
                one = alone[lane].sample(32)
                assert_same_batch(part_of(batch, lane), part_of(one, 0))
                alone[lane].update(one, error[lane : lane + 1])
            first = flat.sample(32)
            assert_same_batch(part_of(batch, 0), first)
            flat.update(first, error[0])


@pytest.mark.parametrize("kind", MEMORIES)
def test_lanes_fed_the_same_stream_with_the_same_seed_are_the_same(kind: type[ReplayMemory]) -> None:
    memory = kind(30, **PLAIN, lanes=3, seed=[5, 5, 6])
    rng = np.random.default_rng(2)
    for _ in range(60):
        memory.add(stacked([[random_step(rng)]] * 3, 3))
    batch = memory.sample(30)
    assert_same_batch(part_of(batch, 0), part_of(batch, 1))
    assert batch.index[0].tolist() != batch.index[2].tolist()


ERRORS: dict[str, tuple[Any, Any, str]] = {
    "NaN": ([0, 1], [1.0, NAN], "^td_error: wanted finite numbers of float32, got NaN or infinity"),
    "inf": ([0, 1], [1.0, -INF], "^td_error: wanted finite"),
    "too large for float32": ([0, 1], np.array([1e39, 0.0]), "^td_error: wanted finite"),
    "shapes differ": ([0, 1], [1.0], r"^update: wanted .*the same shape \[B\], got \(2,\) and \(1,\)"),
    "a column": ([0, 1], [[1.0], [2.0]], r"^update: wanted .*got \(2,\) and \(2, 1\)"),
    "a lane too many": ([[0, 1]], [[1.0, 2.0]], r"^update: wanted .*\[B\], got \(1, 2\)"),
    "index too high": ([0, 10], [1.0, 1.0], "^index: wanted slots from 0 to 9, got 0 … 10"),
    "index below zero": ([-1, 0], [1.0, 1.0], "^index: wanted slots from 0 to 9, got -1 … 0"),
    "an empty slot": ([0, 3], [1.0, 1.0], "^index: wanted slots that hold an experience, got empty ones"),
    "nothing": (torch.zeros(0, dtype=torch.int64), torch.zeros(0), "^update: wanted at least one entry, got none"),
}


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("size", [0, -1, 1.0, 2.5, None, "3", True])
def test_a_batch_size_out_of_range_is_refused(kind: type[ReplayMemory], size: Any) -> None:
    memory = begun(kind)
    with refused(memory, f"^size: wanted a whole number ≥ 1, got {size!r}"):
        memory.sample(size)


@pytest.mark.parametrize("kind", MEMORIES)
def test_more_than_is_stored_but_not_more_than_the_capacity_may_be_drawn(kind: type[ReplayMemory]) -> None:
    assert begun(kind).sample(10).reward.shape == (10,)
    assert begun(kind).sample(np.int64(4)).reward.shape == (4,)


@pytest.mark.parametrize("kind", MEMORIES)
def test_sampling_an_empty_memory_is_refused_at_first_and_after_a_clear(kind: type[ReplayMemory]) -> None:
    memory = kind(10, **SMALL)
    with refused(memory, "^sample: wanted at least one stored experience, got an empty memory$"):
        memory.sample(1)
    memory.add(simple(0))
    memory.sample(1)
    memory.clear()
    with refused(memory, "got an empty memory$"):
        memory.sample(1)


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_single_empty_lane_is_named(kind: type[ReplayMemory]) -> None:
    memory = kind(10, obs=(3,), action=5, lanes=3)
    rng = np.random.default_rng(0)
    step = stacked([[random_step(rng)] for _ in range(3)], 3)
    memory.add(step, valid=[[True], [False], [True]])
    with refused(memory, r"empty memory in lanes \[1\]"):
        memory.sample(1)
    memory.add(step, valid=[[False], [True], [False]])
    assert memory.sample(2).index.tolist() == [[0, 0]] * 3


def test_pending_windows_are_not_stored_experiences() -> None:
    memory = UniformMemory(10, **SMALL, n_step=3)
    memory.add(simple(0))
    with refused(memory, "empty memory"):
        memory.sample(1)


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", ERRORS)
def test_wrong_updates_are_refused(backend: str, kind: type[ReplayMemory], name: str) -> None:
    index, error, message = ERRORS[name]
    memory = begun(kind)
    memory.sample(5)
    with refused(memory, message):
        memory.update(torch.as_tensor(index), error)


def test_wrong_kinds_of_numbers_in_an_update_are_refused() -> None:
    memory = begun(PrioritizedMemory)
    with refused(
        memory, "^update: wanted an integer index and float td_error, got torch.int64 and torch.int64", TypeError
    ):
        memory.update(torch.tensor([0]), torch.tensor([1]))
    with refused(memory, "got torch.float32 and torch.float32", TypeError):
        memory.update(torch.tensor([0.0]), torch.tensor([1.0]))


@pytest.mark.parametrize("lanes", [1, 3])
def test_updates_for_another_number_of_lanes_are_refused(lanes: int) -> None:
    memory = PrioritizedMemory(10, obs=(3,), action=5, lanes=2)
    rng = np.random.default_rng(0)
    memory.add(stacked([[random_step(rng)] for _ in range(2)], 2))
    with refused(memory, r"^update: wanted .*\[2, B\], got"):
        memory.update(torch.zeros(lanes, 4, dtype=torch.int64), torch.zeros(lanes, 4))
    with refused(memory, r"^index: wanted slots that hold an experience"):
        memory.update(torch.tensor([[0], [1]]), torch.zeros(2, 1))


@pytest.mark.parametrize("kind", MEMORIES)
def test_an_index_from_before_a_clear_is_refused(backend: str, kind: type[ReplayMemory]) -> None:
    memory = begun(kind)
    batch = memory.sample(4)
    memory.clear()
    with refused(memory, r"^index: wanted slots that hold an experience, got empty ones \(from before a clear\?\)"):
        memory.update(batch.index, torch.ones(4))


@pytest.mark.parametrize(
    "error",
    [
        np.array([1.5, -2.0], np.float64),
        [1.5, -2.0],
        torch.tensor([1.5, -2.0], dtype=torch.float16),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([1.5, -2.0], requires_grad=True),
        torch.tensor([[1.5, 0.0], [-2.0, 0.0]])[:, 0],
    ],
)
def test_td_errors_of_every_float_kind_are_understood(backend: str, error: Any) -> None:
    memory = PrioritizedMemory(2, **SMALL, alpha=1.0, epsilon=1e-9)
    memory.add(simple(0))
    memory.add(simple(1))
    memory.update(torch.tensor([0, 1]), error)
    assert memory.ledger.tree.weight[0, :2].tolist() == [1.5, 2.0]


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="colour"):
        UniformMemory(10, **SMALL, colour="red")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_an_index_may_be_any_integer(dtype: torch.dtype) -> None:
    one, other = (begun(PrioritizedMemory) for _ in range(2))
    one.update(torch.tensor([0, 2]), torch.tensor([3.0, 5.0]))
    other.update(torch.tensor([0, 2], dtype=dtype), torch.tensor([3.0, 5.0]))
    assert_same_state(one.state_dict(), other.state_dict())
