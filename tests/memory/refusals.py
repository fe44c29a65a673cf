"""What tests of bad input share: a small memory, and the proof that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crystalrl import UniformMemory
from crystalrl.memory import ReplayMemory
from tests.experience import SMALL, assert_same_state, simple


@contextmanager
def refused(memory: ReplayMemory, message: str, error: type[Exception] = ValueError) -> Iterator[None]:
    """The block raises, with this message, and leaves everything as it was, down to what is drawn next."""
    before = memory.state_dict()
    with pytest.raises(error, match=message):
        yield
    assert_same_state(before, memory.state_dict())
    memory.check()


def begun(kind: type[ReplayMemory] = UniformMemory, **options: Any) -> ReplayMemory:
    """A memory of one environment with three experiences in it."""
    memory = kind(10, **{**SMALL, **options})
    for number in range(3):
        memory.add(simple(number, context=1 if options.get("context") else None))
    return memory
