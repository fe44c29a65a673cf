"""What a consolidation does to each experience."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition
from crystalrl.memory.crystal.consolidate import back_up, scaled_error
from crystalrl.memory.crystal.novelty import masked_quantile
from crystalrl.memory.neighbours.exact import Near
from crystalrl.memory.neighbours.features import flatten
from tests.memory.crystal.experience import by_reward, feed, memory_of, stream, with_output

STILL: dict[str, Any] = {"sigma": 0.0, "interference": "none", "boost": False}


def ones(batch: Batch) -> torch.Tensor:
    return torch.ones_like(batch.reward)


# Pinning


def pinned_births(memory: CrystalMemory, slots: list[int]) -> list[int]:
    memory.pin(torch.tensor(slots))
    return memory.ledger.birth[0, slots].tolist()


def test_pinned_experiences_survive_being_overwritten_and_the_queue_being_rebuilt() -> None:
    memory = memory_of(32)
    feed(memory, 32)
    births = pinned_births(memory, [0, 5, 31])
    feed(memory, 500, seed=1)
    assert memory.ledger.birth[0, [0, 5, 31]].tolist() == births
    memory.consolidate(by_reward)
    feed(memory, 500, seed=2)
    memory.consolidate(by_reward)
    assert memory.ledger.birth[0, [0, 5, 31]].tolist() == births


def test_pinned_experiences_survive_overflow_of_every_phase() -> None:
    """Everything in one phase: far beyond its room."""
    for c, phase in ((0.1, "liquid"), (0.5, "glass"), (0.9, "crystal")):
        memory = memory_of(64, CrystalParams(**STILL, alpha=0.0))
        feed(memory, 30 if phase != "liquid" else 60, crystallization=c)
        births = pinned_births(memory, list(range(8)))
        memory.consolidate(lambda batch: (batch.index >= 8).float())  # the pinned are worth least
        assert set(births) <= set(memory.ledger.birth[0, memory.experiences(phase)["index"]].tolist())


def test_pinned_crystals_survive_streak_eviction_and_others_do_not() -> None:
    params = CrystalParams.paper(alpha=0.0, beta=0.0, sigma=0.0, tau_evict=2, epsilon=10.0, delta_r=0.1)
    memory = memory_of(64, replace(params, capacity=(1.0, 1.0, 8.0)))
    feed(memory, 30, crystallization=0.9)
    births = pinned_births(memory, [3])
    for _ in range(2):
        report = memory.consolidate(by_reward)
    assert report.values["streak_evicted"][0] == 29
    assert memory.ledger.birth[0, memory.experiences()["index"]].tolist() == births


def test_unpinned_experiences_may_go_again() -> None:
    memory = memory_of(16)
    feed(memory, 16)
    memory.pin(torch.tensor([4]))
    memory.pin(torch.tensor([4]), pinned=False)
    before = int(memory.ledger.birth[0, 4])
    feed(memory, 40, seed=1)
    assert int(memory.ledger.birth[0, 4]) != before


# Starting with some crystallization


def test_experiences_may_start_crystallized() -> None:
    memory = memory_of(64)
    for c, phase in ((0.0, "liquid"), (0.3, "liquid"), (0.31, "glass"), (0.7, "glass"), (0.71, "crystal")):
        slot = feed(memory, 1, crystallization=c)[0]
        held = memory.experiences(phase)
        assert slot in held["index"].tolist()
        assert float(held["c"][held["index"] == slot]) == pytest.approx(c)
    assert feed(memory, 1)[0] in memory.experiences("liquid")["index"].tolist()


def test_a_phase_opened_by_a_crystallized_experience_is_drawn_at_once() -> None:
    memory = memory_of(64)
    feed(memory, 20)
    memory.sample(20)
    slot = feed(memory, 1, crystallization=0.9)[0]
    assert int((memory.sample(20).index == slot).sum()) == 1  # 5 % of the batch


def test_a_batch_is_whole_when_the_last_liquid_is_gone() -> None:
    memory = memory_of(16, CrystalParams(capacity=(10.0, 1.0, 1.0)))
    feed(memory, 16)
    feed(memory, 16, seed=1, crystallization=0.9)
    assert len(memory.experiences("liquid")["index"]) == 0
    assert set(memory.ledger.phase[0, memory.sample(16).index].tolist()) == {3}


def test_parallel_environments_may_start_with_their_own_crystallization() -> None:
    memory = memory_of(64, lanes=2, envs=2)
    transition = next(stream(1, lead=(2, 2)))
    slots = memory.add(transition, crystallization=[[0.0, 0.5], [0.8, 1.0]])
    assert memory.ledger.phase.gather(1, slots).tolist() == [[1, 2], [3, 3]]


def test_crystals_added_beyond_the_room_are_kept_by_chance_not_by_age() -> None:
    memory = memory_of(128, CrystalParams(**STILL, alpha=0.0))
    feed(memory, 100, crystallization=0.9)
    memory.consolidate(ones)
    kept = memory.ledger.birth[0, memory.experiences("crystal")["index"]]
    assert len(kept) == memory.params.caps(128)[2]
    assert 20 < float(kept.double().mean()) < 80


def test_experiences_are_listed_by_phase() -> None:
    memory = memory_of(64)
    feed(memory, 10)
    feed(memory, 5, seed=1, crystallization=0.5)
    everything = memory.experiences()
    assert len(everything["index"]) == 15
    assert [len(memory.experiences(phase)["index"]) for phase in ("liquid", "glass", "crystal")] == [10, 5, 0]
    assert everything["obs"].shape == (15, 2)
    assert torch.equal(everything["terminated"], everything["discount"] == 0)
    with pytest.raises(ValueError, match="phase: wanted one of liquid, glass, crystal"):
        memory.experiences("solid")


# Time


@pytest.mark.parametrize("envs", [1, 2])
@pytest.mark.parametrize("start", [2**31 - 25, 2**32 - 25])
def test_time_stamps_may_wrap(envs: int, start: int) -> None:
    """A memory whose time passes what a time stamp holds does what a young one does."""
    ends = []
    for time in (0, start):
        memory = memory_of(40, CrystalParams(time_unit=10, slices=3), envs=envs)
        memory.time += time
        for number in range(4):
            for transition in stream(10, number, envs):
                memory.add(transition)
            memory.consolidate(by_reward)
        ends.append(memory.ledger.c.clone())
    assert ends[0].unique().numel() > 10
    assert torch.equal(*ends)


@pytest.mark.parametrize("clock", ["steps", "calls"])
def test_slices_move_every_experience_by_the_same_total_time(clock: str) -> None:
    """Without noise, constant utility: after a whole round both have moved all c to the same place."""
    ends = {}
    for slices in (1, 4):
        params = CrystalParams(
            **STILL, alpha=0.2, leak=0.05, w1=1.0, w2=0.0, w3=0.0, scale="q95", time_unit=10, slices=slices,
            clock=clock, phases=False,
        )  # fmt: skip
        memory = memory_of(40, params)
        feed(memory, 40)
        for _ in range(8):
            memory.time += 5
            memory.consolidate(ones)
        memory.time += 0
        ends[slices] = memory.ledger.c.clone(), memory.ledger.updated.clone()
    whole, turns = ends[1], ends[4]
    last = turns[1] == whole[1]
    assert int(last.sum()) == 10  # those whose turn was the last
    torch.testing.assert_close(turns[0][last], whole[0][last])
    late = (whole[1] - turns[1]).double() / (1 if clock == "calls" else 10)
    decayed = 0.8 + (turns[0] - 0.8) * torch.exp(-0.25 * late)  # λ = .25, c* = .8: what is still to come
    torch.testing.assert_close(decayed.float(), whole[0], atol=1e-6, rtol=1e-5)


def test_slices_evaluate_a_part_in_turn_and_newcomers_at_once() -> None:
    memory = memory_of(40, CrystalParams(slices=4, time_unit=10))
    feed(memory, 20)
    assert memory.consolidate(by_reward).values["evaluated"][0] == 20
    assert memory.consolidate(by_reward).values["evaluated"][0] == 5
    feed(memory, 3, seed=1)
    assert 5 <= memory.consolidate(by_reward).values["evaluated"][0] <= 8


def test_time_is_counted_in_valid_transitions() -> None:
    memory = memory_of(32, CrystalParams(**STILL, alpha=0.1, w1=1.0, w2=0.0, w3=0.0, scale="q95", time_unit=4))
    feed(memory, 1)
    for transition in stream(7, seed=1):
        memory.add(transition, valid=False)
    feed(memory, 4, seed=2)
    memory.consolidate(ones)
    assert float(memory.ledger.c[0, 0]) == pytest.approx(1 - math.exp(-0.1))


def test_due_after_so_many_steps_or_at_the_end_of_an_episode() -> None:
    memory = memory_of(32, CrystalParams(every=10))
    feed(memory, 9)
    assert not memory.due
    feed(memory, 1)
    assert memory.due
    memory.consolidate(by_reward)
    assert not memory.due
    memory = memory_of(32, CrystalParams(every=10, every_episode=True))
    memory.add(next(stream(1, terminated=False)))
    assert not memory.due
    memory.add(next(stream(1, terminated=True)))
    assert memory.due
    memory.consolidate(by_reward)
    assert not memory.due
    memory.end_episode()
    assert memory.due


# Utility


def test_the_largest_scale_is_the_95th_percentile_and_the_rest_is_clipped() -> None:
    error = torch.arange(101.0)[None]
    scaled, clipped = scaled_error(error, torch.ones(1, 101, dtype=torch.bool), "q95")
    torch.testing.assert_close(scaled, (error / 95).clamp(0, 1))
    assert float(clipped) == pytest.approx(5 / 101)


def test_the_median_scale_is_free_of_units() -> None:
    error = torch.tensor([[0.0, 1.0, 2.0, 4.0]])
    occupied = torch.tensor([[True, True, True, True]])
    scaled, clipped = scaled_error(error, occupied, "median")
    torch.testing.assert_close(scaled, torch.tensor([[0, 1 / 3, 1 / 2, 2 / 3]]))
    torch.testing.assert_close(scaled_error(1000 * error, occupied, "median")[0], scaled)
    assert float(clipped) == 0


@pytest.mark.parametrize("how", ["median", "q95"])
def test_errors_that_are_all_zero_scale_to_zero(how: Any) -> None:
    scaled, clipped = scaled_error(torch.zeros(1, 5), torch.ones(1, 5, dtype=torch.bool), how)
    assert scaled.tolist() == [[0.0] * 5]
    assert float(clipped) == 0
    scaled, _ = scaled_error(torch.zeros(1, 5), torch.zeros(1, 5, dtype=torch.bool), how)
    assert scaled.tolist() == [[0.0] * 5]


def test_quantiles_agree_with_numpy() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(4, 37)).astype(np.float32), rng.random((4, 37)) < 0.6
    for q in (0.0, 0.3, 0.5, 0.95, 1.0):
        got = masked_quantile(torch.tensor(values), torch.tensor(mask), q)[:, 0].numpy()
        wanted = [np.quantile(row[keep], q) for row, keep in zip(values, mask, strict=True)]
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_downstream_value_is_the_mean_error_of_the_states_nearest_to_the_successor_without_oneself() -> None:
    """States on a line; the successor of each is its own state, so it would be its own nearest neighbour."""
    memory = memory_of(16, CrystalParams(**STILL, w1=0.0, w2=0.0, w3=1.0, k=2, scale="q95"))
    for n in range(5):
        place = np.array([n**1.1, 0.0], np.float32)
        memory.add(Transition(place, 0, float(n), place, False))
    memory.consolidate(lambda batch: batch.index.float())
    scale = np.quantile(range(5), 0.95)
    error = np.minimum(np.arange(5) / scale, 1)
    wanted = [error[[1, 2]], error[[0, 2]], error[[1, 3]], error[[2, 4]], error[[2, 3]]]
    np.testing.assert_allclose(memory.ledger.utility[0, :5].numpy(), [np.mean(w) for w in wanted], rtol=1e-5)


def test_downstream_value_uses_the_errors_of_this_consolidation_for_all() -> None:
    """Two passes: the value of the first experience sees the new error of the last."""
    memory = memory_of(16, CrystalParams(**STILL, w1=0.0, w2=0.0, w3=1.0, k=10, scale="q95"))
    feed(memory, 2)
    memory.consolidate(lambda batch: torch.zeros_like(batch.reward))
    assert memory.ledger.utility[0, :2].tolist() == [0.0, 0.0]
    memory.consolidate(lambda batch: (batch.index == 1).float())
    assert memory.ledger.utility[0, :2].tolist() == [1.0, 0.0]


def test_novelty_falls_with_the_visits_of_a_cell_and_counts_each_experience_once() -> None:
    memory = memory_of(64, CrystalParams(**STILL, w1=0.0, w2=1.0, w3=0.0, Z=4.0))
    here, there = np.zeros(2, np.float32), np.full(2, 50, np.float32)
    for _ in range(6):
        memory.add(Transition(here, 0, 0.0, here, False))
    memory.add(Transition(here, 1, 0.0, here, False))
    memory.add(Transition(there, 0, 0.0, there, False))
    for _ in range(3):  # being consolidated again is not being visited again
        memory.consolidate(ones)
    utility = memory.ledger.utility[0, :8].tolist()
    assert utility == pytest.approx([math.exp(-6 / 4)] * 6 + [math.exp(-1 / 4)] * 2)


def test_contexts_are_new_to_each_other() -> None:
    memory = memory_of(64, CrystalParams(**STILL, w1=0.0, w2=1.0, w3=0.0, Z=4.0), context=True)
    here = np.zeros(2, np.float32)
    for context in (0, 0, 0, 7):
        memory.add(Transition(here, 0, 0.0, here, False, context=context))
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :4].tolist() == pytest.approx([math.exp(-3 / 4)] * 3 + [math.exp(-1 / 4)])


def test_an_episodes_return_raises_the_utility_of_its_experiences_only() -> None:
    memory = memory_of(64, CrystalParams(sigma=0.0, w1=0.0, w2=0.0, w3=0.0), gamma=0.5)
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
    memory = memory_of(64, CrystalParams(sigma=0.0, w1=0.0, w2=0.0, w3=0.0), gamma=0.5, envs=2)
    zeros = np.zeros((2, 2), np.float32)
    transition = Transition(zeros, np.zeros(2, int), np.full(2, 2.0), zeros, np.zeros(2, bool))
    memory.add(transition)
    memory.add(transition)
    memory.end_episode(np.array([False, True]), np.array([4.0, 2.0]))
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :4].tolist() == [0.0, 0.5, 0.0, 0.5]


# Settling and anchors


def test_only_what_has_settled_crystallizes() -> None:
    """The network's outputs stand still for half of the experiences and move for the others."""
    memory = memory_of(64, CrystalParams.anchored(sigma=0.0, interference="none", time_unit=10), anchor={"q": (2,)})
    feed(memory, 20)

    def moving(turn: int) -> Any:
        return lambda b: Evaluation(torch.ones_like(b.reward), {"q": b.obs + turn * (b.index % 2)[:, None]})

    memory.consolidate(moving(0))
    first = memory.ledger.c[0, :20].clone()
    for turn in range(1, 6):
        memory.time += 10
        memory.consolidate(moving(turn))
    gained = -torch.log((1 - memory.ledger.c[0, :20]) / (1 - first))
    assert float(gained[::2].min()) > 3 * float(gained[1::2].max())


def test_the_first_anchor_is_the_output_whatever_the_slot_held_before() -> None:
    memory = memory_of(8, CrystalParams.anchored(), anchor={"q": (2,)})
    feed(memory, 8)
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": b.obs * 1e20}))
    feed(memory, 40, seed=1)
    memory.consolidate(with_output)
    held = memory.experiences()
    fresh = memory.ledger.birth[0, held["index"]] >= 8
    assert int(fresh.sum()) >= 3
    assert torch.equal(memory.anchors["q"][0, held["index"][fresh]], held["obs"][fresh])


def test_anchors_of_liquid_follow_the_network_and_those_of_crystals_stand_still() -> None:
    params = CrystalParams.anchored(alpha=0.0, sigma=0.0, interference="none", time_unit=1, phases=False)
    memory = memory_of(8, params, anchor={"q": (2,)})
    for c in (0.0, 0.5, 1.0):
        feed(memory, 1, crystallization=c)
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": torch.zeros_like(b.obs)}))
    memory.time += 2
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": torch.ones_like(b.obs)}))
    follow = 1 - (1 - 0.25) ** 2  # two units of time at rate (1 − .5)²
    torch.testing.assert_close(memory.anchors["q"][0, :3, 0], torch.tensor([1.0, follow, 1e-9]), atol=1e-6, rtol=0)


def test_the_pull_of_an_anchor_grows_with_c_and_is_nothing_before_the_first_evaluation() -> None:
    params = CrystalParams.anchored(alpha=0.0, sigma=0.0, kappa={"q": 0.1, "v": 2.0}, anchor_power=3.0)
    memory = memory_of(16, params, anchor={"q": (2,), "v": ()})
    feed(memory, 4, crystallization=0.9)
    assert memory.sample(4).anchor["q"].coefficient.tolist() == [0.0] * 4
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": b.obs, "v": b.reward}))
    batch = memory.sample(4)
    assert batch.anchor["q"].coefficient.tolist() == pytest.approx([0.1 * 0.9**3] * 4, rel=1e-3)
    assert batch.anchor["v"].coefficient.tolist() == pytest.approx([2.0 * 0.9**3] * 4, rel=1e-3)
    assert torch.equal(batch.anchor["q"].target, batch.obs)
    assert torch.equal(batch.anchor["v"].target, batch.reward)


# Moves


def test_a_frozen_store_takes_the_highest_c_and_leaves_the_rest_in_glass() -> None:
    params = CrystalParams.paper(alpha=0.3, sigma=0.0, interference="none", w1=1.0, w2=0.0, w3=0.0)
    memory = memory_of(64, params)
    room = params.caps(64)[2]
    feed(memory, 20, crystallization=0.69)
    report = memory.consolidate(lambda batch: 1 + batch.index.float())
    kept = memory.experiences("crystal")["index"].tolist()
    assert kept == list(range(20 - room, 20))
    assert report.values["refused"][0] == int((memory.ledger.c[0] > 0.7).sum()) - room
    for _ in range(5):
        memory.consolidate(lambda batch: 20 - batch.index.float())
    assert memory.experiences("crystal")["index"].tolist() == kept


def test_a_crystal_that_melts_becomes_glass_and_then_liquid_and_in_the_papers_reading_never() -> None:
    for params, wanted in ((CrystalParams(**STILL, alpha=0.0, leak=0.05), [3, 2, 1]), (None, [3])):
        mine = params or CrystalParams.paper(alpha=0.0, sigma=0.0, leak=0.05, interference="none")
        memory = memory_of(64, replace(mine, clock="calls"))
        feed(memory, 1, crystallization=0.71)
        seen = [3]
        for _ in range(40):
            memory.consolidate(ones)
            seen.append(int(memory.ledger.phase[0, 0]))
        assert list(dict.fromkeys(seen)) == wanted


def test_full_liquid_gives_up_the_lowest_utility_first_and_unevaluated_ones_last() -> None:
    memory = memory_of(32, CrystalParams(**STILL, alpha=0.0, w1=1.0, w2=0.0, w3=0.0))
    feed(memory, 16)
    memory.consolidate(lambda batch: 1 + batch.index.float())
    feed(memory, 16, seed=1)  # free slots first
    order = feed(memory, 22, seed=2)
    assert order[:16] == list(range(16))
    assert order[16:] == list(range(16, 22))  # then the oldest of those never evaluated


def test_an_emptied_memory_refuses_to_be_sampled() -> None:
    params = CrystalParams.paper(
        alpha=0.0, beta=0.0, sigma=0.0, tau_evict=1, epsilon=10.0, delta_r=0.01, capacity=(1.0, 1.0, 8.0)
    )
    memory = memory_of(32, params)
    feed(memory, 8, crystallization=0.9)
    memory.sample(4)
    memory.consolidate(by_reward)
    assert len(memory) == 0
    with pytest.raises(ValueError, match="empty memory"):
        memory.sample(4)
    memory.check()
    memory.consolidate(by_reward)


def test_what_was_evicted_since_it_was_drawn_is_skipped_by_an_update() -> None:
    memory = memory_of(32, CrystalParams(**STILL, alpha=0.0))
    feed(memory, 32)
    batch = memory.sample(32)
    memory.consolidate(by_reward)
    gone = memory.ledger.phase[0, batch.index] == 0
    assert bool(gone.any())
    assert not bool(gone.all())
    memory.update(batch.index, torch.full((32,), 9.0))
    memory.check()
    assert bool((memory.ledger.error[0, batch.index[~gone]] == 9).all())


# Precision


def test_neighbours_are_found_in_full_precision_whatever_the_process_has_chosen() -> None:
    seen: list[str] = []

    def features(obs: Any) -> torch.Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return flatten(obs)

    memory = memory_of(64, CrystalParams.anchored(), features=features)
    feed(memory, 64)
    seen.clear()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        memory.consolidate(by_reward)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert "highest" in seen


def test_interference_is_backed_up_to_the_past_of_a_contradicted_experience_one_step_per_sweep() -> None:
    """A chain 0 → 1 → 2 → 3 whose end is contradicted."""
    near = Near(torch.tensor([[[1], [2], [3], [0]]]), torch.ones(1, 4, 1, dtype=torch.bool))
    flagged, alive = torch.tensor([[False, False, False, True]]), torch.ones(1, 4, dtype=torch.bool)
    alive[0, 3] = False
    assert back_up(flagged, near, alive, 0.5, 15).tolist() == [[0.125, 0.25, 0.5, 1.0]]
    assert back_up(flagged, near, alive, 0.5, 2).tolist() == [[0.0, 0.25, 0.5, 1.0]]


def test_termination_stops_the_backup() -> None:
    near = Near(torch.tensor([[[1], [2], [3], [0]]]), torch.ones(1, 4, 1, dtype=torch.bool))
    flagged, alive = torch.tensor([[False, False, False, True]]), torch.tensor([[True, False, True, True]])
    assert back_up(flagged, near, alive, 0.5, 15).tolist() == [[0.0, 0.0, 0.5, 1.0]]


def test_a_warm_backup_reaches_the_same_value_sweep_by_sweep() -> None:
    near = Near(torch.tensor([[[1], [2], [3], [0]]]), torch.ones(1, 4, 1, dtype=torch.bool))
    flagged, alive = torch.tensor([[False, False, False, True]]), torch.tensor([[True, True, True, False]])
    last = torch.zeros(1, 4)
    for _ in range(3):
        last = back_up(flagged, near, alive, 0.5, 1, last)
    assert last.tolist() == back_up(flagged, near, alive, 0.5, 15).tolist()


def test_a_warm_backup_decays_slowly_between_experiences_that_are_each_others_future() -> None:
    near, alive = Near(torch.tensor([[[1], [0]]]), torch.ones(1, 2, 1, dtype=torch.bool)), torch.ones(1, 2).bool()
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    assert back_up(nothing, near, alive, 0.9, 2, torch.ones(1, 2)).tolist()[0] == pytest.approx([0.81, 0.81])
    assert back_up(nothing, near, alive, 0.9, 2).tolist() == [[0, 0]]
