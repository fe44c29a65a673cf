"""Anchor losses: compared with torch's own divergence, and with the gradients that SB3's hooks add."""

from __future__ import annotations

import pytest
import torch

from crystalrl import Anchor
from crystalrl.integrations.anchors import gaussian_pull, squared_pull
from crystalrl.integrations.sb3.hooks import gaussian_gradient
from crystalrl.losses import gaussian_distance

B, A = 16, 3


def test_a_squared_pull_is_the_mean_of_strength_times_squared_distance() -> None:
    anchor, output = Anchor(torch.randn(B, A), torch.rand(B)), torch.randn(B, A)
    wanted = sum(float(anchor.coefficient[b]) * float(((output - anchor.target)[b] ** 2).sum()) for b in range(B)) / B
    assert float(squared_pull(anchor, output)) == pytest.approx(wanted, rel=1e-6)


def test_a_gaussian_pull_is_the_mean_distance_and_has_the_gradient_that_the_hooks_add() -> None:
    mean, log_std = (torch.rand(B, A, requires_grad=True) for _ in range(2))
    anchor = Anchor(torch.randn(B, 2 * A), torch.rand(B))
    pull = gaussian_pull(anchor, mean, log_std)
    distance = gaussian_distance(torch.cat([mean, log_std], 1), anchor.target)
    torch.testing.assert_close(pull, (anchor.coefficient * distance).mean(), rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(pull, (mean, log_std))
    for ours, hooks in zip(gradients, gaussian_gradient(anchor, mean.detach(), log_std.detach()), strict=True):
        torch.testing.assert_close(ours, hooks, rtol=1e-5, atol=1e-6)


def test_outputs_of_another_shape_are_refused() -> None:
    anchor = Anchor(torch.zeros(B, 2), torch.ones(B))
    with pytest.raises(ValueError, match=r"wanted the anchor's shape \[16, 2\], got \[16, 1\]"):
        squared_pull(anchor, torch.zeros(B, 1))
    with pytest.raises(ValueError, match=r"wanted two of shape \[B, A\] for an anchor \[B, 2A\], got"):
        gaussian_pull(anchor, torch.zeros(B, 3), torch.zeros(B, 3))
