"""Meanings of actions: permutations, and turns with and without a mirror."""

import math

import torch

from crystalrl.suites.moves import MOVES, Permuted, Turned, of_stage, turned


def drawn() -> torch.Tensor:
    return torch.rand(4, 50, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_permuted_actions_are_all_five_moves_once_in_every_stage() -> None:
    mapping = Permuted(drawn())
    stage = torch.arange(50).expand(4, -1)
    given = torch.stack([mapping(stage, torch.full((4, 50), action)) for action in range(5)], 2)
    for moves in given.flatten(0, 1).tolist():
        assert sorted(map(tuple, moves)) == sorted(MOVES)
    assert len(mapping.permutation.flatten(0, 1).unique(dim=0)) > 50


def test_turned_actions_keep_lengths_and_angles_and_half_of_the_stages_mirror_them() -> None:
    mapping = Turned(drawn())
    stage = torch.arange(50).expand(4, -1)
    x, y = (mapping(stage, axis.expand(4, 50, 2)) for axis in torch.eye(2))
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(4, 50))
    torch.testing.assert_close((x * y).sum(-1), torch.zeros(4, 50), atol=1e-6, rtol=0)
    area = x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]  # −1 for a mirror
    torch.testing.assert_close(area.abs(), torch.ones(4, 50))
    assert 0.4 < (area < 0).float().mean() < 0.6
    angle = torch.atan2(x[..., 1], x[..., 0])
    for quarter in range(4):
        inside = (angle >= -math.pi + quarter * math.pi / 2) & (angle < -math.pi / 2 + quarter * math.pi / 2)
        assert 0.15 < inside.float().mean() < 0.35


def test_a_vector_is_turned_anticlockwise() -> None:
    quarter = turned(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.zeros(1, 2), torch.ones(1, 2))
    assert quarter.tolist() == [[[0.0, 1.0], [-1.0, 0.0]]]


def test_rows_of_a_table_are_those_of_each_environment_s_stage() -> None:
    table = torch.arange(12.0).view(2, 3, 2)
    assert of_stage(table, torch.tensor([[2, 0], [1, 1]])).tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]
