"""Novelty where a grid says nothing: from how near the nearest stored states are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.memory.crystal.novelty import NOTE
from tests.memory.crystal.experience import by_reward


def filled(size: int, count: int, **changes: object) -> CrystalMemory:
    """Walks of ten environments in so many dimensions, of which the first stays where it is."""
    params = CrystalParams(w1=0.0, w2=1.0, w3=0.0, backup=0.9, interference="none", alpha=0.0, boost=False, **changes)  # type: ignore[arg-type]
    memory = CrystalMemory(4 * count, obs=(size,), action=3, params=params, envs=10, seed=0)
    rng = np.random.default_rng(0)
    state = rng.normal(size=(10, size)).astype(np.float32)
    for _ in range(count // 10):
        following = (0.9 * state + 0.4 * rng.normal(size=state.shape)).astype(np.float32)
        following[0] = state[0] + 0.001 * rng.normal(size=size)
        action = rng.integers(0, 3, 10)
        memory.add(Transition(state, action, np.zeros(10), following, np.zeros(10, bool)))
        state = following
    return memory


def test_a_grid_whose_cells_are_entered_once_gives_way_to_neighbours() -> None:
    memory, asked = filled(20, 2000), filled(20, 2000, novelty="knn")
    report = memory.consolidate(by_reward)
    assert NOTE in report.warnings
    assert NOTE not in asked.consolidate(by_reward).warnings
    assert torch.equal(memory.ledger.utility, asked.ledger.utility)
    only_grid = filled(20, 2000, novelty="grid")
    assert NOTE not in only_grid.consolidate(by_reward).warnings
    moving = (memory.ledger.phase[0] > 0) & (memory.ledger.birth[0] % 10 > 0)
    by_grid, by_neighbours = (each.ledger.utility[0, moving].std() for each in (only_grid, memory))
    assert float(by_grid) < 0.5 * float(by_neighbours)


def test_a_grid_whose_cells_are_entered_again_is_kept() -> None:
    memory, grid = filled(1, 2000), filled(1, 2000, novelty="grid")
    assert NOTE not in memory.consolidate(by_reward).warnings
    grid.consolidate(by_reward)
    assert torch.equal(memory.ledger.utility, grid.ledger.utility)


def test_who_stays_in_one_place_is_less_novel_than_who_moves_on() -> None:
    memory = filled(20, 2000)
    memory.consolidate(by_reward)
    stored = memory.ledger.phase[0] > 0
    stays = memory.ledger.birth[0, stored] % 10 == 0
    novelty = memory.ledger.utility[0, stored]
    assert float(novelty[stays].quantile(0.9)) < float(novelty[~stays].quantile(0.1))


@pytest.mark.parametrize(("each", "useless"), [(1, True), (6, False)])
def test_whether_a_grid_is_useless_is_known_also_when_its_table_is_full(each: int, useless: bool) -> None:
    """So many visits to each of ever new cells fill the bounded table twelve times over."""
    memory = filled(20, 1000)
    memory.grid.count.zero_()
    rng = torch.Generator().manual_seed(0)
    entries = memory.grid.count.shape[1]
    cells = torch.randint(0, entries, (1, 12 * entries // each), generator=rng).repeat(1, each)
    memory.grid.count.scatter_add_(1, cells, torch.ones_like(cells, dtype=torch.int32))
    assert (NOTE in memory.consolidate(by_reward).warnings) == useless
