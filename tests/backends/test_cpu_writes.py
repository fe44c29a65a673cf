"""Slots on CPU: what is wrong is refused at once."""

from __future__ import annotations

import pytest
import torch

from crystalrl.backends import backend_for

NO_FLAG = torch.zeros((), dtype=torch.bool)


@pytest.mark.parametrize(
    ("slots", "error", "message"),
    [
        ([[]], [[]], "update: wanted at least one entry, got none"),
        ([[0, 5]], [[1.0, 1.0]], "index: wanted slots from 0 to 4, got 0 … 5"),
        ([[-1, 4]], [[1.0, 1.0]], "index: wanted slots from 0 to 4, got -1 … 4"),
        ([[0, 1]], [[1.0, float("nan")]], "td_error: wanted finite"),
        ([[0, 1]], [[float("-inf"), 1.0]], "td_error: wanted finite"),
        ([[0, 1]], [[1e39, 1.0]], "td_error: wanted finite"),
    ],
)
def test_bad_errors_and_unknown_slots_raise(
    backend: str, slots: list[list[int]], error: list[list[float]], message: str
) -> None:
    writes = backend_for(torch.device("cpu")).writes
    index = torch.tensor(slots, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        writes.magnitude(torch.tensor(error, dtype=torch.float64), index, 5, NO_FLAG)
