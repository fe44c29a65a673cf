"""What a memory holds can be listed."""

from __future__ import annotations

import pytest
import torch

from tests.memory.crystal.experience import feed, memory_of


def test_experiences_are_listed_by_phase() -> None:
    memory = memory_of(64)
    feed(memory, 10)
    feed(memory, 5, seed=1, crystallization=0.5)
    everything = memory.experiences()
    assert len(everything["index"]) == 15
    assert [len(memory.experiences(phase)["index"]) for phase in ("liquid", "glass", "crystal")] == [10, 5, 0]
    assert everything["obs"].shape == (15, 2)
    assert torch.equal(everything["terminated"], everything["discount"] == 0)
    with pytest.raises(ValueError, match="phase: wanted one of liquid, glass, crystal"):
        memory.experiences("solid")
