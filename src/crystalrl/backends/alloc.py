"""Allocation of large tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`torch.zeros`; on CPU allocated by NumPy, which requests huge pages: scattered reads then miss the TLB less."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, str(dtype).removeprefix("torch."))).zero_()
