"""How contradictions spread to the past of an experience."""

from __future__ import annotations

import pytest
import torch

from crystalrl.memory.crystal.interference import back_up
from crystalrl.memory.neighbours.exact import Near


def test_suspicion_reaches_the_past_of_a_contradicted_experience_and_no_further_than_its_sweeps() -> None:
    """A chain 0 → 1 → 2 → 3 whose end is contradicted."""
    near = Near(torch.tensor([[[1], [2], [3], [0]]]), torch.ones(1, 4, 1, dtype=torch.bool))
    flagged, alive = torch.tensor([[False, False, False, True]]), torch.ones(1, 4, dtype=torch.bool)
    alive[0, 3] = False
    assert back_up(flagged, near, alive, 0.5, 15).tolist() == [[0.125, 0.25, 0.5, 1.0]]
    assert back_up(flagged, near, alive, 0.5, 2).tolist() == [[0.0, 0.25, 0.5, 1.0]]


def test_termination_stops_suspicion() -> None:
    near = Near(torch.tensor([[[1], [2], [3], [0]]]), torch.ones(1, 4, 1, dtype=torch.bool))
    flagged, alive = torch.tensor([[False, False, False, True]]), torch.tensor([[True, False, True, True]])
    assert back_up(flagged, near, alive, 0.5, 15).tolist() == [[0.0, 0.0, 0.5, 1.0]]


def test_a_warm_backup_reaches_the_same_suspicion_sweep_by_sweep() -> None:
    near = Near(torch.tensor([[[1], [2], [3], [0]]]), torch.ones(1, 4, 1, dtype=torch.bool))
    flagged, alive = torch.tensor([[False, False, False, True]]), torch.tensor([[True, True, True, False]])
    last = torch.zeros(1, 4)
    for _ in range(3):
        last = back_up(flagged, near, alive, 0.5, 1, last)
    assert last.tolist() == back_up(flagged, near, alive, 0.5, 15).tolist()


def test_a_warm_backup_forgets_slowly_what_is_each_others_future() -> None:
    near, alive = Near(torch.tensor([[[1], [0]]]), torch.ones(1, 2, 1, dtype=torch.bool)), torch.ones(1, 2).bool()
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    assert back_up(nothing, near, alive, 0.9, 2, torch.ones(1, 2)).tolist()[0] == pytest.approx([0.81, 0.81])
    assert back_up(nothing, near, alive, 0.9, 2).tolist() == [[0, 0]]
