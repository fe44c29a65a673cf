"""What backends have in common: the numbers they share, views of columns, and the operations of each."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crystalrl.backends import backend_for
from crystalrl.backends.protocols import BELOW_ONE, UNLABELLED, SlotColumns, TreeOperations, TreeTensors, Writes
from tests.conftest import computing_with

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


@given(x=st.floats(SMALLEST_NORMAL, exclude_min=True, allow_infinity=False, allow_nan=False))
def test_a_product_with_below_one_is_smaller_and_the_next_double_or_the_one_after(x: float) -> None:
    less = x * BELOW_ONE
    assert less < x
    assert less >= np.nextafter(np.nextafter(x, 0), 0)


def test_a_label_of_no_stratum_fits_a_byte_and_is_no_number_of_a_stratum() -> None:
    assert torch.tensor(UNLABELLED, dtype=torch.uint8).item() == UNLABELLED
    assert torch.iinfo(torch.uint8).max == UNLABELLED


def columns_of(lanes: int, slots: int, strata: int) -> SlotColumns:
    return SlotColumns(
        floats=torch.zeros(4, lanes, slots + 1), bytes=torch.zeros(2, lanes, slots + 1, dtype=torch.uint8),
        birth=torch.zeros(lanes, slots + 1, dtype=torch.int64),
        updated=torch.zeros(lanes, slots + 1, dtype=torch.int32),
        env=torch.zeros(lanes, slots + 1, dtype=torch.int16), clock=torch.zeros(lanes, dtype=torch.int64),
        number=torch.zeros(lanes, dtype=torch.int64), filled=torch.zeros(lanes, strata, dtype=torch.float64),
        enter=torch.zeros(strata - 1, lanes, 1), n_step=1,
    )  # fmt: skip


def test_the_arrays_of_columns_are_views_of_the_tensors_of_the_same_name() -> None:
    columns = columns_of(2, 5, 3)
    for name, array in columns.arrays._asdict().items():
        array.fill(7)
        tensor = getattr(columns, name)
        assert array.shape == tuple(tensor.shape), name
        assert bool((tensor == 7).all()), name
    assert columns.arrays is columns.arrays


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def operations_of(protocol: type) -> dict[str, list[str]]:
    return {name: parameters(value) for name, value in vars(protocol).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", ["numba", "numpy", "torch", "triton"])
def test_every_backend_has_every_operation_with_the_same_arguments(name: str) -> None:
    with computing_with(name):
        backend = backend_for(torch.device("cpu"))
    kind = backend.tree
    padded = (5 // kind.arity + 1) * kind.arity
    tensors = TreeTensors(
        torch.zeros(1, padded), torch.zeros(1, 0, dtype=torch.uint8), torch.zeros(1, 1, kind.arity).double(),
        torch.zeros(1, padded, 2, dtype=torch.int32), (0,), 5,
    )  # fmt: skip
    for there, protocol in ((kind.operations(tensors), TreeOperations), (backend.writes, Writes)):
        wanted = operations_of(protocol)
        assert len(wanted) >= 4
        assert {operation: parameters(getattr(there, operation)) for operation in wanted} == wanted
