"""Anchor losses: compared with torch's own divergence, and with the gradients that SB3's hooks add."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from crystalrl import Anchor
from crystalrl.integrations.anchors import gaussian_pull, squared_pull
from crystalrl.integrations.sb3.hooks import kl_gradient

B, A = 16, 3


def test_a_squared_pull_is_the_mean_of_strength_times_squared_distance() -> None:
    anchor, output = Anchor(torch.randn(B, A), torch.rand(B)), torch.randn(B, A)
    wanted = sum(float(anchor.coefficient[b]) * float(((output - anchor.target)[b] ** 2).sum()) for b in range(B)) / B
    assert float(squared_pull(anchor, output)) == pytest.approx(wanted, rel=1e-6)


def test_a_gaussian_pull_is_torch_s_divergence_and_has_the_gradient_that_the_hooks_add() -> None:
    mean, log_std = (torch.rand(B, A, requires_grad=True) for _ in range(2))
    anchor = Anchor(torch.randn(B, 2 * A), torch.rand(B))
    pull = gaussian_pull(anchor, mean, log_std)
    old_mean, old_log_std = anchor.target.chunk(2, 1)
    divergence = kl_divergence(Normal(old_mean, old_log_std.exp()), Normal(mean, log_std.exp())).sum(1)
    torch.testing.assert_close(pull, (anchor.coefficient * divergence).mean(), rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(pull, (mean, log_std))
    for ours, hooks in zip(gradients, kl_gradient(anchor, mean.detach(), log_std.detach()), strict=True):
        torch.testing.assert_close(ours, hooks, rtol=1e-5, atol=1e-6)


def test_outputs_of_another_shape_are_refused() -> None:
    anchor = Anchor(torch.zeros(B, 2), torch.ones(B))
    with pytest.raises(ValueError, match=r"wanted the anchor's shape \[16, 2\], got \[16, 1\]"):
        squared_pull(anchor, torch.zeros(B, 1))
    with pytest.raises(ValueError, match=r"wanted two of shape \[B, A\] for an anchor \[B, 2A\], got"):
        gaussian_pull(anchor, torch.zeros(B, 3), torch.zeros(B, 3))
