"""The types that are exchanged: their defaults, that they cannot change, and that every memory is a `Memory`."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from crystalrl import Batch, CrystalMemory, Evaluation, Memory, Transition, UniformMemory
from tests.experience import MEMORIES, SMALL, assert_same_state, feed, simple


def parameters(function: object) -> dict[str, tuple[object, bool]]:
    """Name → kind, and whether it may be left out."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {each.name: (each.kind, each.default is not each.empty) for each in found}


@pytest.mark.parametrize("kind", [*MEMORIES, CrystalMemory])
def test_every_memory_has_all_that_a_loop_may_use_with_the_same_arguments(kind: type) -> None:
    memory = kind(8, **SMALL)
    for name, wanted in vars(Memory).items():
        if name.startswith("_") and name != "__len__":
            continue
        assert hasattr(memory, name), name
        if not isinstance(wanted, property):
            assert parameters(getattr(kind, name)).items() >= parameters(wanted).items(), name


def test_a_transition_neither_ends_by_time_nor_names_a_task_unless_it_says_so() -> None:
    given = simple(3)
    short = Transition(given.obs, given.action, given.reward, given.next_obs, given.terminated)
    assert (short.truncated, short.context) == (False, None)
    one, two = (UniformMemory(8, n_step=2, **SMALL) for _ in range(2))
    for _ in range(4):
        one.add(short)
        two.add(replace(short, truncated=False, context=None))
    assert_same_state(one.state_dict(), two.state_dict())


def test_what_is_exchanged_cannot_be_changed_nor_extended() -> None:
    memory = UniformMemory(8, **SMALL)
    feed(memory, 4)
    for value, name in ((simple(1), "reward"), (memory.sample(2), "weight"), (Evaluation(torch.zeros(2)), "td_error")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 0)
        assert not hasattr(value, "__dict__")


def test_a_batch_without_anchors_and_tasks_says_so() -> None:
    memory = UniformMemory(8, **SMALL)
    feed(memory, 4)
    drawn = memory.sample(2)
    assert isinstance(drawn, Batch)
    assert (drawn.context, drawn.anchor) == (None, None)
