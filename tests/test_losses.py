"""The losses, with lanes and without: against torch's own and against loops over samples."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from crystalrl.losses import (
    anchor_loss,
    anchor_losses,
    bhattacharyya,
    gaussian_distance,
    gaussian_divergence,
    huber,
    squared_error,
    weighted_mean,
    with_penalty,
)
from crystalrl.types import Anchor

B, A = 9, 2
BATCHES = pytest.mark.parametrize("batch", [(B,), (2, B)], ids=["without lanes", "two lanes"])


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@BATCHES
def test_a_weighted_mean_divides_by_the_batch_and_not_by_the_weights(batch: tuple[int, ...]) -> None:
    loss, weight = normal(*batch), torch.full(batch, 3.0)
    torch.testing.assert_close(weighted_mean(loss, weight), 3 * loss.mean(-1))


def test_huber_is_that_of_torch() -> None:
    error = torch.linspace(-3, 3, 25)
    torch.testing.assert_close(huber(error), functional.huber_loss(error, torch.zeros(25), reduction="none"))


@BATCHES
def test_the_squared_error_is_summed_over_the_output(batch: tuple[int, ...]) -> None:
    output, target = normal(*batch, A), normal(*batch, A, seed=1)
    wanted = functional.mse_loss(output, target, reduction="none").sum(-1)
    torch.testing.assert_close(squared_error(output, target), wanted)


@BATCHES
def test_the_distance_of_gaussians_is_minus_the_logarithm_of_their_overlap(batch: tuple[int, ...]) -> None:
    """The overlap ∫√(p·q), by summation over a fine grid, multiplied over the dimensions."""
    output, target = normal(*batch, 2 * A), normal(*batch, 2 * A, seed=1)
    (mean, log_std), (old_mean, old_log_std) = output.chunk(2, -1), target.chunk(2, -1)
    grid = torch.linspace(-60, 60, 200_001, dtype=torch.float64)
    densities = [
        Normal(m.double()[..., None], s.double().exp()[..., None]).log_prob(grid)
        for m, s in ((mean, log_std), (old_mean, old_log_std))
    ]
    overlap = (0.5 * (densities[0] + densities[1])).exp().sum(-1) * (grid[1] - grid[0])
    torch.testing.assert_close(gaussian_distance(output, target), -overlap.log().sum(-1).float(), rtol=1e-4, atol=1e-5)
    assert torch.equal(bhattacharyya(mean, log_std, target), gaussian_distance(output, target))
    assert not gaussian_distance(target, target).abs().gt(1e-5).any()


def test_a_policy_may_become_more_certain_than_its_anchor_at_little_cost() -> None:
    """A divergence from a wide target would cost (σ₀/σ)²/2, which is 200 here."""
    target, narrow = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, -3.0]])
    assert float(gaussian_distance(narrow, target)) < 1.2


@BATCHES
@pytest.mark.parametrize("shape", [(A,), (A, 3)])
def test_an_anchor_loss_is_the_mean_of_coefficient_times_distance(
    batch: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    output, anchor = normal(*batch, *shape), Anchor(normal(*batch, *shape, seed=1), normal(*batch, seed=2).abs())
    samples = (output - anchor.target).square().reshape(*batch, -1).sum(-1)
    torch.testing.assert_close(anchor_loss(output, anchor), (anchor.coefficient * samples).sum(-1) / B)


def test_a_lane_has_the_anchor_loss_of_its_own_batch() -> None:
    output, anchor = normal(2, B, 2 * A), Anchor(normal(2, B, 2 * A, seed=1), normal(2, B, seed=2).abs())
    for distance in (squared_error, gaussian_distance):
        alone = [
            anchor_loss(output[lane], Anchor(anchor.target[lane], anchor.coefficient[lane]), distance)
            for lane in range(2)
        ]
        torch.testing.assert_close(anchor_loss(output, anchor, distance), torch.stack(alone))


def test_anchor_losses_add_up_each_with_its_own_distance() -> None:
    outputs = {"q": normal(2, B, A), "policy": normal(2, B, 2 * A, seed=1)}
    anchors = {name: Anchor(torch.zeros_like(output), torch.ones(2, B)) for name, output in outputs.items()}
    wanted = anchor_loss(outputs["q"], anchors["q"])
    wanted = wanted + anchor_loss(outputs["policy"], anchors["policy"], gaussian_distance)
    torch.testing.assert_close(anchor_losses(outputs, anchors, {"policy": gaussian_distance}), wanted)
    assert torch.equal(anchor_losses(outputs, {"q": anchors["q"]}), anchor_loss(outputs["q"], anchors["q"]))


def test_an_anchor_without_an_output_is_refused() -> None:
    with pytest.raises(KeyError, match=r"anchor: wanted one of \['q'\], got 'policy'"):
        anchor_losses({"q": torch.zeros(2, B, A)}, {"policy": Anchor(torch.zeros(2, B, A), torch.ones(2, B))})


def test_a_penalty_is_added_if_there_is_one() -> None:
    class Method:
        def __init__(self, extra: torch.Tensor | None) -> None:
            self.extra = extra

        def penalty(self, part: str, theta: torch.Tensor) -> torch.Tensor | None:
            return self.extra

    loss, theta = torch.tensor([1.0, 2.0]), torch.zeros(2, 3)
    assert with_penalty(loss, None, {"q": theta}) is loss
    assert with_penalty(loss, Method(None), {"q": theta}) is loss
    assert with_penalty(loss, Method(torch.tensor([0.5, 0.0])), {"q": theta}).tolist() == [1.5, 2.0]


def test_the_penalties_of_twins_are_added_to_their_lane() -> None:
    class Method:
        def penalty(self, part: str, theta: torch.Tensor) -> torch.Tensor:
            return theta.sum(-1)

    parts = {"policy": torch.ones(2, 1), "q": torch.tensor([[10.0], [20.0], [30.0], [40.0]])}
    assert with_penalty(torch.zeros(2), Method(), parts).tolist() == [31.0, 71.0]


def test_the_divergence_of_gaussians_is_that_of_torch() -> None:
    random = torch.Generator().manual_seed(3)
    output, target = (torch.randn(2, B, 2 * A, generator=random) for _ in range(2))
    (mean, log_std), (old_mean, old_log_std) = output.chunk(2, -1), target.chunk(2, -1)
    old, new = Normal(old_mean, old_log_std.exp()), Normal(mean, log_std.exp())
    wanted = kl_divergence(old, new).sum(-1)
    torch.testing.assert_close(gaussian_divergence(output, target), wanted, rtol=1e-4, atol=1e-5)
