"""How TD errors become draw weights, and how weights of drawn experiences are gated."""

from __future__ import annotations

import numpy as np
import torch

from crystalrl.backends.protocols import UNLABELLED, Weighting
from crystalrl.memory.sampling.priority import Annealed, LossGate, PriorityRule

HALF = torch.full((1, 1), 0.5, dtype=torch.float64)


def test_the_exponent_rises_linearly_to_one_and_stays_there() -> None:
    start = torch.tensor([[0.4], [1.0], [0.0]], dtype=torch.float64)
    time = torch.tensor([50, 50, 300])
    wanted = torch.tensor([[0.7], [1.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(Annealed(start, 100).at(time), wanted)
    assert Annealed(start).at(time) is start


def test_the_gate_falls_with_c_down_to_its_floor() -> None:
    c = torch.tensor([[0.0, 0.5, 0.9, 1.0]])
    gate = LossGate(c, torch.tensor([[2.0]], dtype=torch.float64), torch.tensor([[0.1]], dtype=torch.float64))
    torch.testing.assert_close(gate.of(c), torch.tensor([[1.0, 0.25, 0.1, 0.1]]))
    torch.testing.assert_close(gate.factor(torch.tensor([[1, 0]])), torch.tensor([[0.25, 1.0]]))


def test_a_gate_without_states_leaves_weights_as_they_are() -> None:
    assert LossGate(torch.zeros(1, 0), HALF, HALF).factor(torch.tensor([[3]])) == 1.0


def test_without_states_the_weight_is_the_base_of_the_error() -> None:
    rule = PriorityRule(0.25, HALF, torch.ones(1))
    base = rule.base(torch.tensor([[0.0, 2.0]]))
    assert base.tolist() == [[0.5, 1.5]]
    assert rule.weight(torch.zeros(1, 2, dtype=torch.uint8), base) is base


def test_each_stratum_makes_weights_in_its_own_way_and_none_is_below_epsilon() -> None:
    c = torch.tensor([[0.25, 0.25, 0.25, 0.25, 0.0, 0.0]])
    weighting = (Weighting.C, Weighting.BASE, Weighting.BASE_ROOT_C)
    rule = PriorityRule(0.125, HALF, torch.ones(1), weighting, (c, torch.zeros(1, 7)))
    label = torch.tensor([[0, 1, 2, UNLABELLED, 0, 2]], dtype=torch.uint8)
    base = torch.full((1, 6), 3.0)
    assert rule.weight(label, base).tolist() == [[0.25, 3.0, 1.5, 0.0, 0.125, 0.125]]
    some = torch.tensor([[2, 0]])
    assert rule.weight(label.gather(1, some), base[:, :2], some).tolist() == [[1.5, 0.25]]


def test_the_base_is_computed_in_double_precision_lane_by_lane() -> None:
    exponent = torch.tensor([[0.4], [1.0]], dtype=torch.float64)
    magnitude = torch.from_numpy(np.random.default_rng(0).random((2, 50)).astype(np.float32))
    wanted = (magnitude.double().numpy() + 1e-6) ** exponent.numpy()
    got = PriorityRule(1e-6, exponent, torch.ones(2)).base(magnitude)
    assert got.dtype == torch.float32
    assert np.array_equal(got.numpy(), wanted.astype(np.float32))
