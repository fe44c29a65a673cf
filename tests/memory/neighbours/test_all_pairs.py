"""The search over all pairs finds what a comparison pair by pair finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.backends import backend_for
from crystalrl.memory.neighbours.all_pairs import AllPairs, Found, needs_near
from crystalrl.memory.neighbours.epsilon import Scales
from crystalrl.memory.neighbours.exact import Near

EPSILON, DELTA_R = 0.9, 0.6
EVERY = torch.tensor([True, True])


def memory_of(fill: tuple[int, int], **params: Any) -> CrystalMemory:
    """Two lanes, whose widths are multiples of 16 slots."""
    chosen = CrystalParams.paper(epsilon=EPSILON, delta_r=DELTA_R, k=3, raw_distance=False, **params)
    memory = CrystalMemory(64, obs=(2,), action=2, params=chosen, lanes=2, seed=0)
    memory.block = 16  # type: ignore[misc]
    rng = np.random.default_rng(0)
    for step in range(max(fill)):
        obs, after = rng.normal(size=(2, 2, 1, 2)).astype(np.float32)
        fields = (obs, rng.integers(0, 2, (2, 1)), rng.normal(size=(2, 1)), after, np.zeros((2, 1), bool))
        memory.add(Transition(*fields), valid=np.array([[step < fill[0]], [step < fill[1]]]))
    return memory


def search_of(memory: CrystalMemory, way: str) -> AllPairs:
    pairs = backend_for(torch.device("cpu")).pairs if way == "kernels" else None
    return AllPairs(memory.params, memory.features, Scales(memory.params, 2, torch.device("cpu")), pairs)


@pytest.mark.parametrize("way", ["kernels", "torch"])
@pytest.mark.parametrize("fill", [(40, 40), (50, 12)])
def test_neighbours_and_contradictions_are_those_of_a_loop_over_pairs(way: str, fill: tuple[int, int]) -> None:
    """Whatever the widths of the lanes. Flagged are both of a pair within ε whose rewards differ by more than δ_r."""
    memory = memory_of(fill)
    view = memory.snapshot()
    found = search_of(memory, way).search(view, EVERY)
    assert found.near is not None
    flagged = 0
    for lane, count in enumerate(fill):
        obs, after, reward, action = (
            view.fields[name][lane, :count].double().numpy() for name in ("obs", "next_obs", "reward", "action")
        )
        mean, deviation = obs.mean(0), obs.std(0)
        state, successor = (obs - mean) / deviation, (after - mean) / deviation
        for i in range(count):
            others = [j for j in range(count) if j != i]
            nearest = sorted(others, key=lambda j, i=i: float(np.linalg.norm(state[j] - successor[i])))[:3]
            assert set(found.near.index[lane, i][found.near.exists[lane, i]].tolist()) == set(nearest)
            apart = [np.linalg.norm(state[j] - state[i]) + np.sqrt(2) * (action[j] != action[i]) for j in others]
            wanted = any(
                far <= EPSILON and abs(reward[j] - reward[i]) > DELTA_R for far, j in zip(apart, others, strict=True)
            )
            assert bool(found.flagged[lane, i]) == wanted
            flagged += wanted
        assert not found.flagged[lane, count:].any()
    assert 5 < flagged < sum(fill) - 5
    assert found.epsilon.tolist() == [[pytest.approx(EPSILON)]] * 2
    assert found.delta_r.tolist() == [[pytest.approx(DELTA_R)]] * 2


def test_without_a_rule_nothing_is_flagged_and_there_are_no_scales() -> None:
    memory = memory_of((20, 20), interference="none")
    found = search_of(memory, "torch").search(memory.snapshot(), EVERY)
    assert not found.flagged.any()
    assert found.epsilon.tolist() == found.delta_r.tolist() == [[0.0], [0.0]]


def found_of(value: int, slots: int) -> Found:
    near = Near(torch.full((2, slots, 1), value), torch.full((2, slots, 1), value > 0))
    scale = torch.full((2, 1), float(value))
    return Found(near, torch.full((2, slots), value > 0), scale, scale + 1)


def test_results_of_lanes_are_joined_and_padded_slots_have_no_neighbours() -> None:
    narrow, wide = found_of(1, 2).widened(4), found_of(0, 4)
    assert narrow.near is not None
    assert narrow.near.exists[..., 0].tolist() == narrow.flagged.tolist() == [[True, True, False, False]] * 2
    joined = wide.joined(narrow, torch.tensor([False, True]))
    assert joined.near is not None
    assert joined.near.index[..., 0].tolist() == [[0] * 4, [1, 1, 0, 0]]
    assert joined.flagged.tolist() == [[False] * 4, [True, True, False, False]]
    assert joined.epsilon.tolist() == [[0.0], [1.0]]
    assert joined.delta_r.tolist() == [[1.0], [2.0]]


def test_neighbours_are_searched_only_where_a_parameter_needs_them() -> None:
    nothing: dict[str, Any] = {"w3": 0.0, "backup": 0.0, "novelty": "grid"}
    assert not needs_near(CrystalParams.repaired(**nothing))
    assert not needs_near(CrystalParams.repaired(**{**nothing, "w3": 0.2, "downstream": "random"}))
    for change in ({"w3": (0.0, 0.2)}, {"backup": 0.5}, {"novelty": "knn"}):
        assert needs_near(CrystalParams.repaired(**{**nothing, **change}))
