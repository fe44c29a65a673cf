"""Allocation of large tensors."""

import pytest
import torch

from crystalrl.backends.alloc import zeros


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_zeros_are_what_torch_would_allocate(dtype: torch.dtype, device: str) -> None:
    wanted = torch.zeros(3, 0, 5, dtype=dtype), torch.zeros(2, 7, dtype=dtype)
    for like in wanted:
        got = zeros(tuple(like.shape), dtype, torch.device(device))
        assert (got.shape, got.dtype, got.device.type) == (like.shape, dtype, device)
        assert device == "meta" or torch.equal(got, like)
