"""What a consolidation does to each experience."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Evaluation, Transition
from crystalrl.memory.crystal.consolidate import back_up, scaled_error
from crystalrl.memory.neighbours.exact import Near
from crystalrl.memory.neighbours.features import flatten
from tests.memory.crystal.experience import WithLists, by_reward, feed, memory_of

STILL: dict[str, Any] = {"sigma": 0.0, "interference": "none", "boost": False}


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


def test_raw_errors_stay_as_they_are_and_the_utility_is_clipped() -> None:
    error = torch.tensor([[0.0, 0.5, 1.5, 3.0]])
    scaled, above = scaled_error(error, torch.ones(1, 4, dtype=torch.bool), "raw")
    assert torch.equal(scaled, error)
    assert float(above) == 0.5
    memory = memory_of(16, CrystalParams.paper(**STILL, w1=0.5, w2=0.0, w3=0.0))
    for n in (0.5, 1.0, 3.0):
        memory.add(Transition(np.full(2, n, np.float32), 0, n, np.zeros(2, np.float32), False))
    memory.consolidate(by_reward)
    assert memory.ledger.utility[0, :3].tolist() == [0.25, 0.5, 1.0]


def test_weights_above_one_in_sum_are_divided_by_their_sum() -> None:
    """The paper's sensitivity table varies w₁ to .6 and .7 while w₂ and w₃ stay at .3 and .2."""
    utilities = []
    for weights in ((0.7, 0.3, 0.2), (0.7 / 1.2, 0.3 / 1.2, 0.2 / 1.2), (0.5, 0.3, 0.1)):
        named = dict(zip(("w1", "w2", "w3"), weights, strict=True))
        memory = memory_of(64, CrystalParams.paper(**STILL, **named, scale="q95"))
        feed(memory, 40)
        memory.consolidate(by_reward)
        utilities.append(memory.ledger.utility[0, :40])
    torch.testing.assert_close(utilities[0], utilities[1])
    assert float(utilities[0].max()) <= 1
    assert not torch.allclose(utilities[1], utilities[2])


@pytest.mark.parametrize("delta_t", [1.0, 5.0])
def test_a_call_of_the_paper_s_clock_lasts_delta_t(delta_t: float) -> None:
    """Euler, U = 1, no noise: c = α·Δt after the first consolidation, 1 − (1 − α·Δt)² after the second."""
    params = CrystalParams.paper(sigma=0.0, interference="none", w1=1.0, w2=0.0, w3=0.0, alpha=0.05, delta_t=delta_t)
    memory = memory_of(16, params)
    feed(memory, 4)
    for calls in (1, 2):
        memory.consolidate(lambda batch: torch.ones_like(batch.reward))
        assert memory.ledger.c[0, :4].tolist() == pytest.approx([1 - (1 - 0.05 * delta_t) ** calls] * 4, rel=1e-6)


@pytest.mark.parametrize("kind", [CrystalMemory, WithLists])
def test_the_downstream_value_of_the_paper_is_from_raw_distances(kind: type[CrystalMemory]) -> None:
    """The second coordinate is a hundred times larger: raw neighbours follow it, standardised ones follow both."""
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    states = (rng.normal(size=(80, 2)) * [1, 100]).astype(np.float32)
    params = {**STILL, "w1": 0.0, "w2": 0.0, "w3": 1.0, "k": 3, "scale": "raw"}
    error = rng.random(80)
    apart = np.linalg.norm(states[:, None] - states[None], axis=-1) + np.diag(np.full(80, np.inf))
    wanted = error[apart.argsort(1)[:, :3]].mean(1)
    found = []
    for raw in (True, False):
        memory = memory_of(128, CrystalParams.paper(**params, raw_distance=raw), kind)
        for state, delta in zip(states, error, strict=True):
            memory.add(Transition(state, 0, float(delta), state, False))
        memory.consolidate(by_reward)
        found.append(memory.ledger.utility[0, :80].numpy())
    assert np.isclose(found[0], wanted, rtol=1e-5).mean() > 0.95  # lists may miss a neighbour
    assert np.isclose(found[1], wanted, rtol=1e-5).mean() < 0.5


@pytest.mark.parametrize("how", ["median", "q95", "raw"])
def test_errors_that_are_all_zero_scale_to_zero(how: Any) -> None:
    scaled, clipped = scaled_error(torch.zeros(1, 5), torch.ones(1, 5, dtype=torch.bool), how)
    assert scaled.tolist() == [[0.0] * 5]
    assert float(clipped) == 0
    scaled, _ = scaled_error(torch.zeros(1, 5), torch.zeros(1, 5, dtype=torch.bool), how)
    assert scaled.tolist() == [[0.0] * 5]


def test_downstream_value_is_the_mean_error_of_the_states_nearest_to_the_successor_without_oneself() -> None:
    """States on a line; the successor of each is its own state, so it would be its own nearest neighbour."""
    memory = memory_of(16, CrystalParams.repaired(**STILL, w1=0.0, w2=0.0, w3=1.0, k=2, scale="q95"))
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
    memory = memory_of(16, CrystalParams.repaired(**STILL, w1=0.0, w2=0.0, w3=1.0, k=10, scale="q95"))
    feed(memory, 2)
    memory.consolidate(lambda batch: torch.zeros_like(batch.reward))
    assert memory.ledger.utility[0, :2].tolist() == [0.0, 0.0]
    memory.consolidate(lambda batch: (batch.index == 1).float())
    assert memory.ledger.utility[0, :2].tolist() == [1.0, 0.0]


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


def test_an_anchor_of_hardly_any_crystallization_follows_as_the_formula_says() -> None:
    """In float32, (1 − c)² is 1 here; a sixth of a unit of time makes that visible."""
    c = 1e-8
    params = CrystalParams(**STILL, alpha=0.0, kappa=1.0, time_unit=6, settle=None, clock="steps", practice=0)
    memory = memory_of(8, params, anchor={"q": (2,)})
    feed(memory, 1, crystallization=c)
    memory.consolidate(lambda batch: Evaluation(torch.zeros(batch.reward.shape), {"q": torch.zeros_like(batch.obs)}))
    feed(memory, 1, seed=1)
    memory.consolidate(lambda batch: Evaluation(torch.zeros(batch.reward.shape), {"q": torch.ones_like(batch.obs)}))
    follow = 1 - (2 * c) ** (1 / 6)
    torch.testing.assert_close(memory.anchors["q"][0, 0], torch.full((2,), follow, dtype=torch.float32))


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
