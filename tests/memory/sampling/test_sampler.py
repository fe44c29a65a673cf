"""Which slots are drawn, with which weights, and what TD errors change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from crystalrl.memory.sampling.priority import Annealed, LossGate, PriorityRule
from crystalrl.memory.sampling.sampler import UniformSampler, WeightedSampler
from crystalrl.memory.sampling.strata import BatchStrata
from crystalrl.memory.sampling.sum_tree import SumTree
from crystalrl.random import Streams

NOW = torch.tensor([50, 200])
SLOTS = 20


@dataclass
class Held:
    """How many experiences two lanes hold."""

    filled: Tensor

    @property
    def count(self) -> Tensor:
        return self.filled.sum(-1).to(torch.int64)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def filled_tree(weight: np.ndarray, label: np.ndarray) -> SumTree:
    tree = SumTree(*weight.shape, int(label.max()) + 1)
    slots = torch.arange(weight.shape[1]).repeat(len(weight), 1)
    tree.set(slots, torch.from_numpy(weight.astype(np.float32)), torch.from_numpy(label.astype(np.uint8)))
    return tree


def weighted(tree: SumTree, held: Held, shares: tuple[float, ...], gate: LossGate | None = None) -> WeightedSampler:
    rule = PriorityRule(1e-3, column(1.0, 1.0), torch.ones(2))
    strata = BatchStrata(shares, "largest_remainder")
    return WeightedSampler(Streams([3, 4]), held, tree, rule, strata, Annealed(column(0.4, 0.0), 100), gate)


def test_a_uniform_sampler_draws_what_is_held_with_weight_one_and_learns_nothing(backend: str) -> None:
    held = Held(column(3.0, 7.0))
    sampler = UniformSampler(Streams([0, 1]), held)
    slots, weight, ticket = sampler.draw(200, NOW)
    assert [sorted(set(lane)) for lane in slots.tolist()] == [list(range(3)), list(range(7))]
    assert weight.tolist() == [[1.0] * 200] * 2
    assert ticket is None
    assert not sampler.learns
    held.filled += 1
    assert sampler.count.tolist() == [4, 8]
    assert set(sampler.draw(200, NOW).slots[0].tolist()) == set(range(4))
    asked = torch.tensor([[0, 3, 4, -1], [0, 7, 8, SLOTS]])
    assert sampler.occupied(asked).tolist() == [[True, True, False, False]] * 2


@pytest.mark.parametrize("gated", [False, True])
def test_a_weighted_sampler_draws_each_stratum_by_weight_and_corrects_for_it(backend: str, gated: bool) -> None:
    """Half of the batch from each stratum; weights (n·p)^(−β) over the batch's largest, times the gate."""
    weight, label = np.tile([1.0, 3.0, 0.0, 2.0, 6.0], (2, 1)), np.tile([0, 0, 0, 1, 1], (2, 1))
    c = torch.linspace(0, 0.8, 5).repeat(2, 1)
    gate = LossGate(c, column(2.0, 1.0), column(0.1, 0.1)) if gated else None
    sampler = weighted(filled_tree(weight, label), Held(torch.full((2, 2), 2.0, dtype=torch.float64)), (0.5, 0.5), gate)
    slots, got, ticket = sampler.draw(2000, NOW)
    assert sampler.learns
    assert torch.equal(ticket, sampler.tree.generation.gather(1, slots))
    share = np.array([0.25, 0.75, np.nan, 0.25, 0.75])
    for lane, beta in enumerate((0.7, 1.0)):
        drawn = slots[lane].numpy()
        seen = np.bincount(drawn, minlength=5) / 1000
        np.testing.assert_allclose(seen, [0.25, 0.75, 0, 0.25, 0.75], atol=0.06)
        assert set(drawn[:1000]) == {0, 1}
        raw = (2 * share) ** -beta
        factor = gate.of(c)[lane].numpy() if gate is not None else np.ones(5)
        np.testing.assert_allclose(got[lane].numpy(), (raw / np.nanmax(raw) * factor)[drawn], rtol=1e-5)


def test_a_weighted_sampler_learns_except_for_slots_rewritten_since_the_draw(backend: str) -> None:
    tree = filled_tree(np.ones((2, SLOTS)), np.zeros((2, SLOTS)))
    sampler = weighted(tree, Held(column(SLOTS, SLOTS)), (1.0,))
    slots = torch.arange(3).repeat(2, 1)
    ticket = tree.generation.gather(1, slots)
    tree.bump(torch.tensor([[1], [-1]]))
    sampler.update(slots, torch.full((2, 3), 7.0), ticket)
    tree.check()
    np.testing.assert_allclose(tree.weight[:, :4].tolist(), [[7.001, 1, 7.001, 1], [7.001, 7.001, 7.001, 1]])
    sampler.update(slots[:, 1:2], torch.full((2, 1), 2.0), None)
    np.testing.assert_allclose(tree.weight[:, 1].tolist(), [2.001, 2.001])


def test_a_weighted_sampler_tells_which_slots_hold_an_experience(backend: str) -> None:
    weight = np.zeros((2, SLOTS))
    weight[0, :3], weight[1, 5:] = 1e-6, 1.0
    sampler = weighted(filled_tree(weight, np.zeros((2, SLOTS))), Held(column(3.0, 15.0)), (1.0,))
    assert sampler.count.tolist() == [3, 15]
    asked = torch.tensor([[2, 3, -1, SLOTS], [5, 4, -1, 10**9]])
    assert sampler.occupied(asked).tolist() == [[True, False, False, False]] * 2
