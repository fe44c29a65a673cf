"""Recorded outputs: those of the time when experiences were stored, and which experiences are old."""

import pytest
import torch

from crystalrl.methods.recorded import Recorded
from tests.methods.runs import play, setup_of, trainer


def test_the_outputs_are_those_at_the_time_of_storing() -> None:
    made = trainer("der", memory="uniform")
    made.begin(0)
    made.collect()
    first = made.memory.sample(64)
    wanted = made.agent.outputs(first)["q"].detach()
    play(made, 10, idle=0)
    recorded = made.method.anchors(first, {"q": torch.ones(2, 64)})["q"].target
    torch.testing.assert_close(recorded, wanted)
    assert not torch.allclose(made.agent.outputs(first)["q"], wanted)


def test_experiences_are_old_once_newer_ones_fill_the_window() -> None:
    made = trainer("der", memory="uniform", method_params={"window": 0.5})  # 48 of 96 slots
    made.begin(0)
    for _ in range(20):  # 80 experiences in slots 0 to 79
        made.collect()
    drawn = made.memory.sample(200)
    assert torch.equal(made.method.in_buffer(drawn), drawn.index < 80 - 48)


def test_with_a_reservoir_the_old_ones_are_the_reserved_ones() -> None:
    made = trainer("der")
    made.begin(0)
    for _ in range(60):
        made.collect()
    drawn = made.memory.sample(40)
    assert torch.equal(made.method.in_buffer(drawn), torch.arange(40).expand(2, -1) >= 20)


def test_a_window_beyond_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window: wanted a number in \[0, 1\], got 2"):
        Recorded(setup_of(trainer("none")), 2)
