"""Large products through oneDNN: those of `torch.baddbmm`, and the same bits for a lane alone and among others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from crystalrl.agents.networks import lane_linear
from crystalrl.backends import onednn

pytestmark = pytest.mark.skipif(onednn._product is None, reason="torch was built without oneDNN")
WIDTHS = ((256, 250), (67, 259), (1030, 256))
"""Odd ones, too: whole SIMD vectors and remainders."""


def drawn(lanes: int, batch: int, fan_in: int, fan_out: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = ((lanes, batch, fan_in), (lanes, fan_in, fan_out), (lanes, 1, fan_out))
    return [torch.randn(shape, generator=random).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("widths", WIDTHS)
def test_outputs_and_gradients_are_those_of_baddbmm(widths: tuple[int, int]) -> None:
    x, weight, bias = given = drawn(2, 300, *widths)
    assert onednn.pays(x, weight)
    ours, theirs = onednn.linear(x, weight, bias), torch.baddbmm(bias, x, weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    output = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
    pairs = zip(*(torch.autograd.grad(each, given, output) for each in (ours, theirs)), strict=True)
    for mine, wanted in pairs:
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("widths", WIDTHS)
def test_a_lane_gets_the_same_bits_alone_and_among_others(widths: tuple[int, int]) -> None:
    every = drawn(3, 300, *widths)
    together = torch.autograd.grad(lane_linear(*every).square().sum(), every)
    for lane in range(3):
        own = [each[lane : lane + 1].detach().clone().requires_grad_() for each in every]
        assert torch.equal(lane_linear(*own)[0], lane_linear(*every)[lane])
        alone = torch.autograd.grad(lane_linear(*own).square().sum(), own)
        assert all(torch.equal(mine[0], among[lane]) for mine, among in zip(alone, together, strict=True))


def test_the_choice_depends_on_the_size_of_one_lane_alone() -> None:
    def pays(lanes: int, batch: int, dtype: torch.dtype = torch.float32) -> bool:
        return onednn.pays(torch.zeros(lanes, batch, 256, dtype=dtype), torch.zeros(lanes, 256, 256, dtype=dtype))

    assert [pays(lanes, 64) for lanes in (1, 2, 50)] == [True] * 3
    assert [pays(lanes, 63) for lanes in (1, 2, 50)] == [False] * 3
    assert not pays(1, 64, torch.float64)


def test_gradients_of_gradients_are_refused_not_wrong() -> None:
    x, weight, bias = drawn(1, 300, 256, 250)
    (first,) = torch.autograd.grad(onednn.linear(x, weight, bias).square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
