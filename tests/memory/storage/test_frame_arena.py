"""A memory with frames stored once holds and returns the same, bit for bit, as one that stores observations whole."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import (
    CrystalMemory,
    PrioritizedMemory,
    ReservoirMemory,
    Transition,
    UniformMemory,
    load_memory,
)
from crystalrl.memory import ReplayMemory
from crystalrl.memory.crystal.background import Background
from crystalrl.memory.storage.frame_arena import GROUP, FrameArena, arena_for
from crystalrl.memory.storage.frames import BASE, LENGTH
from crystalrl.memory.storage.header import CheckpointError
from crystalrl.memory.storage.layout import Layout
from crystalrl.memory.storage.spec import StorageSpec
from tests.experience import assert_same_batch, assert_same_state
from tests.memory.crystal.experience import WithLists
from tests.memory.storage.frame_streams import Pair, judged

KINDS: dict[str, tuple[type[ReplayMemory], dict[str, Any]]] = {
    "uniform": (UniformMemory, {}),
    "prioritized": (PrioritizedMemory, {}),
    "reservoir": (ReservoirMemory, {"recent": 0.3}),
    "pure reservoir": (ReservoirMemory, {"recent": 0.0}),
    "crystal": (CrystalMemory, {"anchor": {"q": (2,)}}),
    "crystal with lists": (WithLists, {"anchor": {"q": (2,)}}),
}
OPERATIONS = ("add", "sample", "update", "end_episode", "consolidate", "clear", "compare")
OFTEN = (0.8, 0.06, 0.04, 0.04, 0.02, 0.01, 0.03)


def recounted(arena: FrameArena) -> dict[int, int]:
    """References to each frame, counted one by one: from rows, from the last frames, from frames relative to it."""
    views = arena.stored.torch_views(arena.rows)
    count = Counter(n for role in ("obs", "next_obs") for n in views[role].flatten().tolist())
    count.update(number for recent in arena.recent for number, _ in recent)
    count.update([int(arena.pool.table[number, BASE]) for number in count])
    return {number: references for number, references in count.items() if number}


def arena_of(memory: ReplayMemory) -> FrameArena:
    assert isinstance(memory.arena, FrameArena)
    return memory.arena


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(("lanes", "envs"), [(None, 1), (None, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("name", KINDS)
def test_random_operations_give_the_same_as_with_observations_stored_whole(
    name: str, lanes: int | None, envs: int, n_step: int, tmp_path: Path
) -> None:
    kind, params = KINDS[name]
    pair = Pair(kind, 3, 4, capacity=40, lanes=lanes, envs=envs, n_step=n_step, **params)
    for step in range(250):
        getattr(pair, str(pair.rng.choice(OPERATIONS, p=OFTEN)))()
        if step % 80 == 40:
            pair.compare()
            pair.once.save(tmp_path / "once")
            pair.whole.save(tmp_path / "whole")
            if step < 100:
                pair.once, pair.whole = load_memory(tmp_path / "once"), load_memory(tmp_path / "whole")
            else:
                pair.once.load(tmp_path / "once")
                pair.whole.load(tmp_path / "whole")
    pair.compare()
    arena = arena_of(pair.once)
    assert {i: c for i, c in enumerate(arena.pool.count.tolist()) if c} == recounted(arena)
    assert len(arena.pool) == len(recounted(arena))
    assert arena.pool.table[:, BASE].any() == kind.codes_frames


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64, np.float16])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_stacks_of_any_length_and_dtype(dtype: Any, k: int) -> None:
    pair = Pair(UniformMemory, 1, k, dtype, capacity=12, n_step=7)
    for _ in range(60):
        pair.add()
    pair.compare()


def test_frames_of_several_channels_are_one_frame() -> None:
    memory = UniformMemory(4, obs=(6, 2), obs_dtype=torch.uint8, action=2, stack=2)
    stack = np.arange(12, dtype=np.uint8).reshape(6, 2) + 1
    shifted = np.concatenate([stack[3:], stack[:3] + 50])
    memory.add(Transition(stack, 0, 0.0, shifted, False))
    batch = memory.sample(1)
    assert np.array_equal(batch.obs[0], stack)
    assert np.array_equal(batch.next_obs[0], shifted)
    assert len(arena_of(memory).pool) == 3


def test_a_copy_and_a_loaded_memory_go_on_like_the_original(tmp_path: Path) -> None:
    pair = Pair(ReservoirMemory, 5, 4, capacity=30, envs=2, n_step=3)
    for _ in range(80):
        pair.add()
    pair.once.save(tmp_path / "file")
    pair.whole = load_memory(tmp_path / "file")
    third = copy.deepcopy(pair.once)
    assert_same_state(third.state_dict(), pair.once.state_dict())
    for _ in range(50):
        pair.add()
    assert_same_state(pair.whole.state_dict(), pair.once.state_dict())


def stream_of_frames(memory: ReplayMemory, steps: int, episode: int) -> None:
    """Steps of an environment that shows a new frame of 84 × 84 pixels each, stacked by four."""
    pixels = np.random.default_rng(0).integers(0, 256, (64, 84 * 84), dtype=np.uint8)

    def frame(number: int) -> np.ndarray:
        shown = pixels[number % 64].reshape(84, 84).copy()
        shown[0, :4] = np.frombuffer(np.int32(number), np.uint8)
        return shown

    stack = np.stack([frame(0)] * 4)
    for number in range(1, steps + 1):
        follows = np.concatenate([stack[1:], frame(2 * number)[None]])
        ends = number % episode == 0
        memory.add(Transition(stack, 1, 0.0, follows, ends))
        stack = np.stack([frame(2 * number + 1)] * 4) if ends else follows


def test_experiences_of_four_frames_of_noise_take_eight_kilobytes_each() -> None:
    memory = UniformMemory(2_000, obs=(4, 84, 84), obs_dtype=torch.uint8, action=4, stack=4)
    stream_of_frames(memory, 2_000, episode=100)
    assert len(memory) == 2_000
    assert len(arena_of(memory).pool) == 2_020
    assert memory.nbytes <= 8_000 * 2_000


@pytest.mark.parametrize("envs", [1, 2])
@pytest.mark.parametrize("n_step", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_no_frame_of_an_episode_is_stored_twice(k: int, n_step: int, envs: int) -> None:
    memory = UniformMemory(80 * envs, obs=(k, 2), obs_dtype=torch.int64, action=2, stack=k, n_step=n_step, envs=envs)
    shown = np.arange(1, envs * 200 + 1).reshape(envs, 100, 2)  # every frame is another one
    lead = (lambda x: x[0]) if envs == 1 else (lambda x: x)
    for t in range(60):
        obs, follows = shown[:, t : t + k], shown[:, t + 1 : t + 1 + k]
        ends = np.full(envs, t == 59)
        memory.add(Transition(*map(lead, (obs, np.zeros(envs, int), np.zeros(envs), follows, ends))))
    assert len(memory) == 60 * envs
    assert len(arena_of(memory).pool) == (60 + k) * envs


def test_a_pool_that_is_full_grows_and_is_counted() -> None:
    memory = UniformMemory(64, obs=(4, 2), obs_dtype=torch.uint8, action=2, stack=4)
    before, rng, seen = memory.nbytes, np.random.default_rng(0), []
    for _ in range(64):
        obs, follows = rng.integers(1, 255, (2, 4, 2), dtype=np.uint8)  # no frame is shared
        seen.append(obs)
        memory.add(Transition(obs, 0, 0.0, follows, False))
    pool = arena_of(memory).pool
    recent = sum(len(content) for _, content in arena_of(memory).recent[0])
    held = pool.heap.blocks.nbytes + pool.heap.following.nbytes + pool.table.nbytes + recent
    assert memory.nbytes - before >= 64 * 8 * 2
    assert memory.nbytes == memory.arena.rows.nbytes + memory.ledger.nbytes + held
    batch = memory.sample(50)
    assert all(np.array_equal(obs, seen[slot]) for obs, slot in zip(batch.obs, batch.index.tolist(), strict=True))
    memory.check()


def test_an_add_for_which_no_memory_is_left_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, rng = UniformMemory(64, obs=(4, 2), obs_dtype=torch.uint8, action=2, stack=4), np.random.default_rng(0)
    steps = [Transition(obs, 0, 0.0, follows, False) for obs, follows in rng.integers(1, 255, (64, 2, 4, 2), np.uint8)]
    for _ in range(5):
        memory.add(steps.pop())  # no frame is shared
    before = memory.state_dict()
    monkeypatch.setattr(arena_of(memory).pool, "missing", lambda frames: 10**18)
    with pytest.raises(MemoryError, match=r"a pool of more than 40 frames needs 1e\+09 GB on cpu, .* GB available"):
        memory.add(steps.pop())
    assert_same_state(memory.state_dict(), before)
    assert len(memory) == 5
    memory.check()


def test_clear_frees_all_frames() -> None:
    pair = Pair(UniformMemory, 2, 3, capacity=20)
    for _ in range(30):
        pair.add()
    pair.once.clear()
    assert len(arena_of(pair.once).pool) == 0
    assert pair.once.state_dict()["frames.length"].tolist() == [0]
    pair.once.check()


def test_check_finds_a_wrong_count() -> None:
    pair = Pair(UniformMemory, 2, 3, capacity=20)
    for _ in range(30):
        pair.add()
    arena_of(pair.once).pool.count[1] += 1
    with pytest.raises(AssertionError, match="frames: wanted counts of the places that name each frame, got others"):
        pair.once.check()


def test_consolidation_in_the_background_reads_the_frames_of_its_snapshot() -> None:
    pair = Pair(CrystalMemory, 4, 4, capacity=60, anchor={"q": (2,)})
    backgrounds = [
        Background(memory, critic=lambda: lambda batch: judged(batch, 0.5), lag=5)
        for memory in (pair.once, pair.whole)
        if isinstance(memory, CrystalMemory)
    ]
    applied = 0
    for _ in range(1200):
        pair.add()
        applied += sum(background.step() is not None for background in backgrounds)
    assert applied >= 4
    pair.compare()


def test_experiences_are_listed_with_their_pixels() -> None:
    pair = Pair(CrystalMemory, 4, 4, capacity=60)
    for _ in range(100):
        pair.add()
    assert isinstance(pair.once, CrystalMemory)
    assert isinstance(pair.whole, CrystalMemory)
    once, whole = pair.once.experiences(), pair.whole.experiences()
    assert all(torch.equal(once[name], whole[name]) for name in ("obs", "next_obs", "reward", "terminated"))


def test_a_memory_stored_whole_does_not_load_frames(tmp_path: Path) -> None:
    pair = Pair(UniformMemory, 2, 3, capacity=20)
    pair.add()
    pair.once.save(tmp_path / "file")
    with pytest.raises(CheckpointError, match="wanted structure"):
        pair.whole.load(tmp_path / "file")


def test_batches_do_not_change_when_their_slots_are_rewritten() -> None:
    pair = Pair(UniformMemory, 2, 3, capacity=20)
    for _ in range(30):
        pair.add()
    batch = pair.once.sample(8)
    kept = copy.deepcopy(batch)
    for _ in range(40):
        pair.add()
    assert_same_batch(batch, kept)


def drifting(memory: ReplayMemory, steps: int) -> None:
    """Steps of an environment in which one more pixel of 84 × 84 changes at every step."""
    shown = np.random.default_rng(0).integers(0, 256, (84, 84), dtype=np.uint8)
    stack = np.stack([shown] * 4)
    for number in range(steps):
        shown = shown.copy()
        shown.reshape(-1)[7 * number] ^= 255
        follows = np.concatenate([stack[1:], shown[None]])
        memory.add(Transition(stack, 1, 0.0, follows, False))
        stack = follows


def test_frames_of_which_little_changes_are_coded_relative_to_one_of_the_same_group() -> None:
    memory = ReservoirMemory(200, obs=(4, 84, 84), obs_dtype=torch.uint8, action=4, stack=4)
    drifting(memory, 200)
    pool = arena_of(memory).pool
    table = pool.table[1 : pool.used]
    assert np.bincount(table[:, BASE])[1:].max() == GROUP
    assert sum(table[:, BASE] == 0) == -(-201 // (1 + GROUP))
    assert memory.nbytes < 200 * 1_000


def test_only_a_memory_with_a_stack_has_a_pool() -> None:
    whole = StorageSpec(8, obs=(4, 2), action=2)
    once = StorageSpec(8, obs=(4, 2), action=2, stack=4)
    assert not isinstance(arena_for(whole, Layout(whole), coded=True), FrameArena)
    assert isinstance(arena_for(once, Layout(once), coded=True), FrameArena)


def test_where_experiences_leave_in_order_frames_are_stored_as_they_are() -> None:
    """Neighbouring experiences are stored too, so each frame is stored once; reading one is a copy."""
    memory = UniformMemory(200, obs=(4, 84, 84), obs_dtype=torch.uint8, action=4, stack=4)
    drifting(memory, 300)
    pool = arena_of(memory).pool
    assert set(pool.table[1 : pool.used, LENGTH].tolist()) <= {0, 84 * 84}
    assert memory.nbytes < 200 * 8_000
