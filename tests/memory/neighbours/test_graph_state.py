"""Neighbour lists in a file: a loaded memory goes on as the saved one would have, and wrong lists are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from crystalrl.memory.neighbours.tuning import GraphTuning
from tests.experience import assert_same_state
from tests.memory.neighbours.walks import uneven, uneven_memory

pytest.importorskip("faiss")


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    "kind", ["plain", "box actions", *(pytest.param(k, marks=pytest.mark.slow) for k in ("features", "half precision"))]
)
def test_lists_are_saved_so_that_a_loaded_memory_goes_on_the_same(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "plain": {},
        "features": {"features": lambda obs: torch.cat([obs, obs**2], -1)},
        "box actions": {"action": (1,)},
        "half precision": {"obs_dtype": torch.float16},
    }[kind]
    memory, other = (uneven_memory(3, 7, **options) for _ in range(2))
    uneven(memory, None, range(310))
    memory.save(tmp_path / "memory")
    uneven(other, None, range(1000, 1200))
    other.load(tmp_path / "memory")
    assert "vicinity.slot.ahead" in memory.state_dict()
    assert_same_state(memory.state_dict(), other.state_dict())
    lives = [uneven(each, None, range(310, 500)) for each in (memory, other)]
    for one, two in zip(*lives, strict=True):
        assert torch.equal(one, two)
    states = [memory.state_dict(), other.state_dict()]
    for state in states:
        del state["ledger.slot.claims"]  # how often a slot beyond the last occupied was written is not saved
    assert_same_state(*states)


@pytest.mark.usefixtures("narrow")
def test_lists_that_cannot_be_right_are_refused_and_nothing_changes() -> None:
    memory = uneven_memory(3, 7)
    memory.neighbours.tuning = GraphTuning()
    uneven(memory, None, range(200))
    before = memory.state_dict()

    def refused(name: str, change: Any) -> None:
        state = {key: tensor.clone() for key, tensor in before.items()}
        state[name] = change(state[name])
        with pytest.raises(ValueError, match=r"vicinity|others"):
            memory.load_state_dict(state)
        assert_same_state(before, memory.state_dict())

    def one_is(value: float) -> Any:
        return lambda tensor: tensor.index_fill(0, torch.tensor([0]), value)

    refused("vicinity.slot.ahead", one_is(600))
    refused("vicinity.slot.alike", one_is(-2))
    refused("vicinity.slot.ahead", lambda lists: lists[..., 1:])
    refused("vicinity.mean", lambda mean: mean.double())
    refused("vicinity.index.0.ids", one_is(700))
    refused("vicinity.index.0.ids", lambda ids: torch.cat([ids[1:2], ids[1:]]))
    refused("vicinity.index.0.sizes", one_is(-1))
    refused("vicinity.index.0.sizes", lambda sizes: sizes + 1)
    refused("vicinity.index.0.centres", one_is(torch.nan))
    missing = {name: tensor for name, tensor in before.items() if name != "vicinity.index.1.ids"}
    with pytest.raises(ValueError, match="others"):
        memory.load_state_dict(missing)
    assert_same_state(before, memory.state_dict())
    memory.load_state_dict({name: tensor for name, tensor in before.items() if not name.startswith("vicinity.")})
    assert memory.neighbours.graph is None


@pytest.mark.usefixtures("narrow")
def test_shorter_lists_of_earlier_versions_are_read_and_become_longer() -> None:
    old, memory = (uneven_memory(3, 7) for _ in range(2))
    old.neighbours.tuning = GraphTuning()
    uneven(old, None, range(200))
    memory.load_state_dict(old.state_dict())
    here, there = (each.neighbours.graph.successor_lists for each in (old, memory))
    assert here is not None
    assert there is not None
    assert there.k > here.k
    assert torch.equal(there.index[..., : here.k], here.index)
    assert bool((there.index[..., here.k :] == -1).all())
    uneven(memory, None, range(200, 400))
    assert int((there.index >= 0).sum(-1).max()) > here.k
    memory.check()
