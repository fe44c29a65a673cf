"""Novelty where a grid is useless: from the distance to the nearest stored states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Transition
from crystalrl.memory.crystal.novelty import NOTE, masked_quantile
from tests.memory.crystal.experience import by_reward, memory_of


def filled(size: int, count: int, **changes: object) -> CrystalMemory:
    """Walks of ten environments in this many dimensions; the first environment does not move."""
    params = CrystalParams.repaired(
        w1=0.0, w2=1.0, w3=0.0, backup=0.9, interference="none", alpha=0.0, boost=False, **changes
    )  # type: ignore[arg-type]
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
    assert NOTE in report.notes
    assert NOTE not in asked.consolidate(by_reward).notes
    assert torch.equal(memory.ledger.utility, asked.ledger.utility)
    only_grid = filled(20, 2000, novelty="grid")
    assert NOTE not in only_grid.consolidate(by_reward).notes
    moving = (memory.ledger.phase[0] > 0) & (memory.ledger.birth[0] % 10 > 0)
    by_grid, by_neighbours = (each.ledger.utility[0, moving].std() for each in (only_grid, memory))
    assert float(by_grid) < 0.5 * float(by_neighbours)


def test_a_grid_whose_cells_are_entered_again_is_kept() -> None:
    memory, grid = filled(1, 2000), filled(1, 2000, novelty="grid")
    assert NOTE not in memory.consolidate(by_reward).notes
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
    """This many visits to each new cell fill the bounded table twelve times over."""
    memory = filled(20, 1000)
    memory.grid.count.zero_()
    rng = torch.Generator().manual_seed(0)
    entries = memory.grid.count.shape[1]
    cells = torch.randint(0, entries, (1, 12 * entries // each), generator=rng).repeat(1, each)
    memory.grid.count.scatter_add_(1, cells, torch.ones_like(cells, dtype=torch.int32))
    assert (NOTE in memory.consolidate(by_reward).notes) == useless


STILL: dict[str, Any] = {"sigma": 0.0, "interference": "none", "boost": False}


def ones(batch: Batch) -> torch.Tensor:
    return torch.ones_like(batch.reward)


def test_novelty_falls_with_the_visits_of_a_cell_and_counts_each_experience_once() -> None:
    memory = memory_of(64, CrystalParams.repaired(**STILL, w1=0.0, w2=1.0, w3=0.0, Z=4.0))
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
    memory = memory_of(64, CrystalParams.repaired(**STILL, w1=0.0, w2=1.0, w3=0.0, Z=4.0), context=True)
    here = np.zeros(2, np.float32)
    for context in (0, 0, 0, 7):
        memory.add(Transition(here, 0, 0.0, here, False, context=context))
    memory.consolidate(ones)
    assert memory.ledger.utility[0, :4].tolist() == pytest.approx([math.exp(-3 / 4)] * 3 + [math.exp(-1 / 4)])


def test_quantiles_agree_with_numpy() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(4, 37)).astype(np.float32), rng.random((4, 37)) < 0.6
    for q in (0.0, 0.3, 0.5, 0.95, 1.0):
        got = masked_quantile(torch.tensor(values), torch.tensor(mask), q)[:, 0].numpy()
        wanted = [np.quantile(row[keep], q) for row, keep in zip(values, mask, strict=True)]
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
        alone = [
            masked_quantile(torch.tensor(row[None]), torch.tensor(keep[None]), q)
            for row, keep in zip(values, mask, strict=True)
        ]
        assert torch.cat(alone)[:, 0].tolist() == got.tolist()
    assert masked_quantile(torch.ones(1, 3), torch.zeros(1, 3, dtype=torch.bool), 0.5).tolist() == [[0.0]]


@pytest.mark.parametrize(("novelty", "visits"), [("grid", [3] * 6), ("state_action", [6] * 6)])
def test_the_paper_counts_visits_whatever_the_context(novelty: Any, visits: list[int]) -> None:
    memory = memory_of(64, CrystalParams.paper(novelty=novelty, w1=0.0, w2=1.0, w3=0.0, Z=1.0), context=True)
    for number in range(6):
        here = np.zeros(2, np.float32)
        memory.add(Transition(here, 0, 1.0, here, False, context=number % 2))
    memory.consolidate(by_reward)
    assert memory.ledger.utility[0, :6].tolist() == pytest.approx(np.exp(-np.array(visits)).tolist(), rel=1e-5)
