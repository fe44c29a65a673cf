"""Numbers per lane, and elementwise functions that round a lane the same way alone and among others."""

from __future__ import annotations

import pytest
import torch

from crystalrl.lanes import lane_values, lanewise, per_lane

CPU = torch.device("cpu")


def test_one_number_holds_for_all_lanes_and_a_sequence_gives_one_per_lane() -> None:
    assert per_lane("x", 0.1, 3, CPU).tolist() == [[0.1]] * 3
    assert per_lane("x", (0.1, 0.2, 0.3), 3, CPU).tolist() == [[0.1], [0.2], [0.3]]
    assert per_lane("x", 1.0, 2, CPU, torch.float32).dtype == torch.float32
    assert per_lane("x", 1.0, 2, CPU).is_contiguous()
    assert lane_values(0.5) == (0.5,)
    assert lane_values([0.5, 1.5]) == [0.5, 1.5]


def test_another_number_of_values_than_lanes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^x: wanted one number, or 3 \(one per lane\), got 2"):
        per_lane("x", (0.1, 0.2), 3, CPU)


@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (5, 13), (100, 2)])
@pytest.mark.parametrize("function", [torch.exp, torch.tanh, torch.nn.functional.softplus])
def test_a_lane_gets_the_same_bits_alone_and_among_others(function, shape: tuple[int, ...]) -> None:
    x = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0))
    together = lanewise(function, x)
    assert together.shape == x.shape
    torch.testing.assert_close(together, function(x))
    for lane in range(5):
        assert torch.equal(together[lane], lanewise(function, x[lane : lane + 1])[0])
