"""A crystal memory in a file: its shapes follow from the header, and a refused load changes nothing."""

from __future__ import annotations

import pytest
import torch

from crystalrl import CheckpointError, CrystalMemory, CrystalParams
from tests.experience import assert_same_state
from tests.memory.crystal.experience import feed, memory_of, with_output


def anchored() -> CrystalMemory:
    memory = memory_of(32, CrystalParams.anchored(every=10), anchor={"q": (2,)})
    feed(memory, 12)
    memory.consolidate(with_output)
    return memory


def test_shapes_follow_from_the_header() -> None:
    memory = anchored()
    state = memory.state_dict()
    sizes = CrystalMemory._sizes(memory.spec, memory._header()["params"], state)
    assert set(sizes) == {"memory.slot.rows", "ledger.queue", "crystal.slot.anchor.q"}
    assert all(tuple(state[name].shape) == shape for name, shape in sizes.items())
    assert sizes["crystal.slot.anchor.q"] == (1, 12, 2)


def test_an_empty_memory_has_no_slots_in_its_file() -> None:
    memory = memory_of(32)
    assert CrystalMemory._used(memory.spec, memory.state_dict()) == 0


def test_a_refused_load_leaves_a_plan_valid_and_the_memory_as_it_was() -> None:
    memory = anchored()
    state, plan = memory.state_dict(), memory.plan(with_output)
    with pytest.raises(CheckpointError, match="anchor q: wanted finite"):
        memory.load_state_dict({**state, "crystal.slot.anchor.q": torch.full((1, 12, 2), torch.nan)})
    assert_same_state(state, memory.state_dict())
    memory.apply(plan)
    memory.check()
