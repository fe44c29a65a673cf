"""What ledgers share."""

from __future__ import annotations

import pytest

from crystalrl import UniformMemory
from tests.experience import SMALL


def test_check_names_a_negative_number_of_experiences() -> None:
    memory = UniformMemory(10, **SMALL)
    memory.ledger.number.fill_(-1)
    with pytest.raises(AssertionError, match=r"number: wanted values from 0 .* got -1"):
        memory.check()
