"""Anchor losses for loops of other libraries."""

from __future__ import annotations

import pytest
import torch

from crystalrl import Anchor
from crystalrl.integrations.anchors import advantage_pull, gaussian_pull, pull_gradients, squared_pull
from crystalrl.losses import gaussian_distance

B, A = 16, 3


def test_a_squared_pull_is_the_mean_of_strength_times_squared_distance() -> None:
    anchor, output = Anchor(torch.randn(B, A), torch.rand(B)), torch.randn(B, A)
    wanted = sum(float(anchor.coefficient[b]) * float(((output - anchor.target)[b] ** 2).sum()) for b in range(B)) / B
    assert float(squared_pull(anchor, output)) == pytest.approx(wanted, rel=1e-6)


def test_an_advantage_pull_does_not_hold_the_level_of_values() -> None:
    q, target = torch.randn(B, A), torch.randn(B, A)
    anchor = Anchor(target - target.mean(1, keepdim=True), torch.rand(B))
    wanted = squared_pull(anchor, q - q.mean(1, keepdim=True))
    torch.testing.assert_close(advantage_pull(anchor, q), wanted)
    torch.testing.assert_close(advantage_pull(anchor, q + 7), wanted, rtol=1e-4, atol=1e-5)
    (gradient,) = pull_gradients(advantage_pull, anchor, q)
    torch.testing.assert_close(gradient.sum(1), torch.zeros(B), rtol=0, atol=1e-6)


def test_a_gaussian_pull_is_the_mean_distance() -> None:
    mean, log_std = (torch.rand(B, A, requires_grad=True) for _ in range(2))
    anchor = Anchor(torch.randn(B, 2 * A), torch.rand(B))
    pull = gaussian_pull(anchor, mean, log_std)
    distance = gaussian_distance(torch.cat([mean, log_std], 1), anchor.target)
    torch.testing.assert_close(pull, (anchor.coefficient * distance).mean(), rtol=1e-5, atol=1e-6)


def test_outputs_of_another_shape_are_refused() -> None:
    anchor = Anchor(torch.zeros(B, 2), torch.ones(B))
    with pytest.raises(ValueError, match=r"wanted the anchor's shape \[16, 2\], got \[16, 1\]"):
        squared_pull(anchor, torch.zeros(B, 1))
    with pytest.raises(ValueError, match=r"wanted two of shape \[B, A\] for an anchor \[B, 2A\], got"):
        gaussian_pull(anchor, torch.zeros(B, 3), torch.zeros(B, 3))
