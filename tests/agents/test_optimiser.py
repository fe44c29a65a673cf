"""Adam and clipping on rows: against torch's Adam, schedules of the learning rate, masked steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from crystalrl.agents.optimiser import LaneAdam, clipped


@pytest.mark.parametrize(
    ("schedule", "factor"),
    [
        ("constant", lambda t: 1.0),
        ("cosine", lambda t: 0.5 + 0.5 * math.cos(math.pi * min(t, 1.0))),
        ("step", lambda t: 0.5 ** math.floor(t)),
        ("robbins-monro", lambda t: 1.0 / (1.0 + t)),
    ],
)
def test_the_learning_rate_follows_its_schedule(schedule: str, factor: Callable[[float], float]) -> None:
    """Adam moves by its rate while the gradient stays the same."""
    rows, gradient = torch.zeros(2, 256), torch.ones(2, 256)
    adam = LaneAdam(rows, (1e-2, 1e-3), schedule, horizon=20)
    for step in range(30):
        before = rows.clone()
        adam.step(rows, gradient)
        moved = (before - rows)[:, 0]
        wanted = factor(step / 20) * torch.tensor([1e-2, 1e-3])
        torch.testing.assert_close(moved, wanted, rtol=1e-3, atol=2e-7)


def test_a_step_is_that_of_torch_and_a_masked_step_is_none() -> None:
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 256, generator=random)
    ours, masked, theirs = rows.clone(), rows.clone(), rows.clone().requires_grad_()
    adam, sometimes, torchs = LaneAdam(ours, 1e-2), LaneAdam(masked, 1e-2), torch.optim.Adam([theirs], lr=1e-2)
    for _ in range(20):
        gradient = torch.randn(2, 256, generator=random)
        adam.step(ours, gradient)
        sometimes.step(masked, gradient, torch.tensor(1.0))
        sometimes.step(masked, gradient + 1, torch.tensor(0.0))
        theirs.grad = gradient
        torchs.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(masked, ours, rtol=1e-4, atol=1e-6)
    assert int(sometimes.steps) == 20


def test_each_lane_is_clipped_by_its_own_norm() -> None:
    gradient = torch.stack([torch.full((256,), 0.1), torch.full((256,), 10.0)])
    scaled, norm = clipped(gradient, 2.0)
    torch.testing.assert_close(norm, torch.tensor([1.6, 160.0]))
    torch.testing.assert_close(scaled.norm(dim=1), torch.tensor([1.6, 2.0]))


def test_learning_rates_of_another_number_of_lanes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"learning_rate: wanted one number, or 2 \(one per lane\), got 3"):
        LaneAdam(torch.zeros(2, 256), (0.1, 0.2, 0.3))
