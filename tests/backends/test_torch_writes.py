"""Slots: every backend allocates, stores and checks as plain loops do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from crystalrl.backends import backend_for
from crystalrl.backends.protocols import Writes
from tests.conftest import computing_with

CPU = torch.device("cpu")


@pytest.fixture(params=["numba", "numpy", "torch", "triton"])
def writes(request: pytest.FixtureRequest) -> Iterator[Writes]:
    with computing_with(request.param):
        yield backend_for(CPU).writes


@pytest.mark.parametrize("queued", [False, True])
def test_valid_experiences_get_the_next_slots_in_order(writes: Writes, queued: bool) -> None:
    rng = np.random.default_rng(0)
    queue = np.stack([rng.permutation(40) for _ in range(3)]).astype(np.int32)
    counter, taken = torch.tensor([0, 3, 7]), [0, 3, 7]
    for _ in range(4):
        valid = rng.random((3, 5)) < 0.6
        slots = writes.allocate(
            torch.from_numpy(valid), counter, 40 if queued else 9, torch.from_numpy(queue) if queued else None
        )
        for lane in range(3):
            for place in range(5):
                wanted = -1
                if valid[lane, place]:
                    wanted = queue[lane, taken[lane]] if queued else taken[lane] % 9
                    taken[lane] += 1
                assert int(slots[lane, place]) == wanted
        assert counter.tolist() == taken
        assert slots.dtype == torch.int64


@pytest.mark.parametrize("lanes", [1, 3])
def test_rows_go_to_their_slots_and_a_negative_slot_is_skipped(writes: Writes, lanes: int) -> None:
    rng = np.random.default_rng(1)
    stride = 11  # the last row of a lane is spare
    out = torch.from_numpy(rng.integers(0, 99, (lanes * stride, 4)))
    rows = torch.from_numpy(rng.integers(100, 999, (lanes, 5, 4)))
    slots = torch.from_numpy(np.stack([rng.permutation(stride - 1)[:5] for _ in range(lanes)]))
    slots[:, 2] = -1
    wanted = out.clone()
    for lane in range(lanes):
        for place in (0, 1, 3, 4):
            wanted[lane * stride + int(slots[lane, place])] = rows[lane, place]
    writes.store_rows(rows, slots, out)
    real = torch.arange(len(out)) % stride != stride - 1
    assert torch.equal(out[real], wanted[real])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_errors_of_known_slots_give_their_size(writes: Writes, dtype: torch.dtype) -> None:
    error, corrupt = torch.tensor([[1.5, -2.5], [0.0, -1e-3]], dtype=dtype), torch.zeros((), dtype=torch.bool)
    magnitude = writes.magnitude(error, torch.tensor([[0, 4], [3, 3]]), 5, corrupt)
    assert magnitude.dtype == torch.float32
    assert torch.equal(magnitude, error.abs().to(torch.float32))
    assert not bool(corrupt)


def test_an_anchor_pulls_by_its_state_once_it_was_evaluated(writes: Writes) -> None:
    c = torch.tensor([[0.5, 0.25, 1.0], [0.5, 0.0, 0.125]])
    flags = torch.tensor([[1, 3, 2], [1, 1, 0]], dtype=torch.uint8)
    kappa, exponent = (torch.tensor(x, dtype=torch.float64) for x in ([[2.0], [4.0]], [[2.0], [0.0]]))
    strength = writes.strength(c, flags, torch.tensor([[2, 1, 0], [0, 1, 2]]), kappa, exponent, 1)
    assert strength.dtype == torch.float32
    torch.testing.assert_close(strength, torch.tensor([[0.0, 0.125, 0.5], [4.0, 4.0, 0.0]]))


@pytest.mark.parametrize("lanes", [1, 3])
def test_values_are_taken_from_the_own_lane(writes: Writes, lanes: int) -> None:
    values = torch.arange(lanes * 7 * 2, dtype=torch.float32).view(lanes, 7, 2)
    slots = torch.tensor([[6, 0, 3, 3], [1, 1, 6, 0], [5, 4, 0, 2]])[:lanes]
    taken = writes.take(values, slots)
    for lane in range(lanes):
        assert torch.equal(taken[lane], values[lane, slots[lane]])
    values.fill_(0.0)
    assert taken[0, 0, 0] == 12  # a copy
