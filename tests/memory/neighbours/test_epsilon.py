"""The automatic ε reaches as far as the recent experiences are dense."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.interference import automatic_row
from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.dynamics import CRYSTAL, LIQUID
from crystalrl.memory.neighbours.epsilon import liquid_spacing
from tests.memory.crystal.experience import WithLists
from tests.memory.neighbours.test_contradiction import small


def test_automatic_epsilon_finds_contradictions_in_a_navigation_stream() -> None:
    """The distance to the nearest state, which is the paper's scale if any, finds hardly one."""
    ours = automatic_row(1000, "fresh_mean", "library", 10)
    assert ours["recall"] > 0.9
    assert ours["false flags"] < 0.02
    assert automatic_row(1000, "fresh_mean", "library", None)["recall"] < 0.2


def test_states_that_recur_exactly_contradict_with_automatic_epsilon() -> None:
    """A grid world of nine cells: the automatic ε is 0, and still the same cell contradicts."""
    params = CrystalParams.anchored(time_unit=50, sigma=0.0, alpha=0.5, k=3)
    memory = CrystalMemory(400, obs=(2,), action=2, params=params)
    rng = np.random.default_rng(0)

    def live(sign: float, count: int) -> float:
        for _ in range(count):
            cell = rng.integers(0, 3, 2).astype(np.float32)
            action = int(rng.integers(2))
            memory.add(Transition(cell, action, sign * (2.0 * action - 1), cell, True))
        return float(memory.consolidate(lambda b: torch.ones_like(b.reward)).values["contradicted"][0])

    assert [live(1.0, 200) for _ in range(6)] == [0] * 6
    assert float(memory.consolidate(lambda b: torch.ones_like(b.reward)).values["epsilon"][0]) == 0
    assert live(-1.0, 200) > 50


def test_automatic_epsilon_does_not_reach_from_one_context_into_another() -> None:
    """Few crystals are left of each old context, far apart; the recent experiences are dense."""
    n = 60
    state = torch.cat([torch.arange(30.0) * 100, torch.linspace(0, 1, 30)]).view(1, n, 1)
    phase = [CRYSTAL] * 30 + [LIQUID] * 30
    assert 0 < float(liquid_spacing(small([0.0] * n, phase, state=state.flatten().tolist()), 5)) < 0.5
    assert float(liquid_spacing(small([0.0] * 5, [LIQUID] * 5), 10)) == 0


@pytest.mark.parametrize("kind", [CrystalMemory, WithLists])
def test_the_automatic_epsilon_of_exists_reaches_the_median_nearest_experience_in_state_and_action(
    kind: type[CrystalMemory],
) -> None:
    """Rewards alternate, so every experience with another one within ε is flagged. Distances of states alone hardly
    reach any."""
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    states = rng.uniform(size=(120, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, size=(120, 2)).astype(np.float32)
    memory = kind(128, obs=(2,), action=(2,), params=CrystalParams.paper(delta_r=0.0))
    for state, action, reward in zip(states, actions, range(120), strict=True):
        memory.add(Transition(state, action, float(reward), state, False))
    values = memory.consolidate(lambda b: torch.ones_like(b.reward)).values
    apart = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (states, actions)]
    nearest = (sum(apart) + np.diag(np.full(120, np.inf))).min(1)
    assert float(values["epsilon"][0]) == pytest.approx(np.sort(nearest)[59], rel=1e-5)
    assert float(values["contradicted"][0]) == pytest.approx(60, abs=2)  # up to the median; lists round otherwise
