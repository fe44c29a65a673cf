"""No state, however it was made, leaves a memory invalid: it is refused with nothing changed, or it can be used."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl import CheckpointError, CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory import ReplayMemory, load_memory
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.checks import part
from tests.experience import assert_same_state
from tests.memory.crystal.experience import WithLists, stream, with_output

KINDS = ("uniform", "prioritized", "reservoir", "crystal", "lists")
ODD = [0, 1, -1, 2, 63, 64, 200, 2**31 - 1, -(2**31), 2**61, 2**62 + 1, 2**63 - 1, -(2**63), 0.5, -0.5, 1e-40, 3e38]
ODD += [float("nan"), float("inf"), -float("inf")]


def memory_of(kind: str) -> ReplayMemory:
    """A memory of 64 slots with two-step windows, not yet full, drawn from, updated and, if it can be, consolidated."""
    storage: dict[str, Any] = {"obs": (2,), "action": 3, "n_step": 2, "seed": 0}
    if kind in ("crystal", "lists"):
        made = WithLists if kind == "lists" else CrystalMemory
        params = CrystalParams.anchored(time_unit=20, every=10, alpha=0.8)
        memory: ReplayMemory = made(64, params=params, anchor={"q": (2,)}, **storage)
    else:
        kinds = {"uniform": UniformMemory, "prioritized": PrioritizedMemory, "reservoir": ReservoirMemory}
        memory = kinds[kind](64, **storage)
    use(memory, 60)
    return memory


def use(memory: ReplayMemory, steps: int, seed: int = 0) -> None:
    for k, step in enumerate(stream(steps, seed)):
        memory.add(step)
        if k > 2:
            batch = memory.sample(8)
            memory.update(batch.index, batch.reward)
        if memory.due:
            memory.consolidate(with_output)


MEMORIES = {kind: memory_of(kind) for kind in KINDS[:-1]}
STATES = {kind: memory.state_dict() for kind, memory in MEMORIES.items()}


def changed(state: dict[str, torch.Tensor], name: str, place: int, value: float) -> dict[str, torch.Tensor]:
    """The state with one element of one tensor replaced by a value, as its dtype can hold it."""
    state = {key: tensor.clone() for key, tensor in state.items()}
    flat = state[name].view(-1)
    if flat.is_floating_point():
        flat[place % len(flat)] = value
    elif flat.dtype == torch.bool:
        flat.view(torch.uint8)[place % len(flat)] = int(np.nan_to_num(value)) & 255
    else:
        limits = torch.iinfo(flat.dtype)
        whole = 0 if value != value else min(max(value, limits.min), limits.max)
        flat[place % len(flat)] = int(whole)
    return state


def refused_or_usable(kind: str, state: dict[str, torch.Tensor]) -> bool:
    """Whether the memory refuses the state, unchanged; otherwise it must pass its check and live on."""
    memory, before = MEMORIES[kind], STATES[kind]
    try:
        memory.load_state_dict(state)
    except CheckpointError:
        assert_same_state(before, memory.state_dict())
        return True
    try:
        memory.check()
        use(memory, 12, seed=1)
        memory.check()
    finally:
        memory.load_state_dict(before)
    return False


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS[:-1])
def test_a_state_with_any_odd_number_is_refused_or_can_be_used(kind: str, data: st.DataObject) -> None:
    names = sorted(name for name, tensor in STATES[kind].items() if tensor.numel())
    name = data.draw(st.sampled_from(names))
    place, value = data.draw(st.integers(0, 1 << 20)), data.draw(st.sampled_from(ODD))
    refused_or_usable(kind, changed(STATES[kind], name, place, value))


WRONG = [
    ("prioritized", "ledger.slot.weight", -1.0), ("prioritized", "ledger.slot.weight", np.nan),
    ("prioritized", "ledger.slot.weight", 0.0), ("prioritized", "ledger.highest", np.inf),
    ("prioritized", "ledger.slot.claims", -5), ("uniform", "ledger.number", 2**40), ("uniform", "ledger.number", -1),
    ("uniform", "memory.slot.rows", 2**63 - 1), ("uniform", "memory.time", -1), ("uniform", "streams.ticks", -1),
    ("uniform", "streams.seeds", -1), ("uniform", "windows.length", 2), ("uniform", "windows.reward", np.nan),
    ("reservoir", "ledger.recent", 64), ("reservoir", "ledger.reserved", 2**62), ("reservoir", "ledger.recent", 5),
    ("crystal", "ledger.slot.weight", -1.0), ("crystal", "ledger.slot.weight", 0.0),
    ("crystal", "ledger.slot.label", 3),
    ("crystal", "ledger.slot.c", 1.5), ("crystal", "ledger.slot.c", np.nan), ("crystal", "ledger.slot.utility", -0.1),
    ("crystal", "ledger.slot.suspicion", 2.0), ("crystal", "ledger.slot.error", -1.0),
    ("crystal", "ledger.slot.error", np.inf), ("crystal", "ledger.slot.flags", 4),
    ("crystal", "ledger.slot.birth", 2**40),
    ("crystal", "ledger.slot.updated", 2**31 - 1), ("crystal", "ledger.head", -1), ("crystal", "ledger.head", 65),
    ("crystal", "ledger.tail", 65), ("crystal", "ledger.queue", 64), ("crystal", "ledger.queue", -1),
    ("crystal", "ledger.filled", 0.5), ("crystal", "ledger.filled", np.nan), ("crystal", "ledger.number", 3),
    ("crystal", "crystal.slot.anchor.q", np.nan), ("crystal", "crystal.slot.anchor.q", np.inf),
    ("crystal", "crystal.slot.cell", -1), ("crystal", "crystal.slot.cell", 2**31 - 1), ("crystal", "crystal.steps", -1),
    ("crystal", "crystal.turns", -1), ("crystal", "crystal.started", 2**40), ("crystal", "crystal.grid.count", -1),
    ("crystal", "crystal.grid.deviation", np.nan), ("crystal", "crystal.ended", 7),
]  # fmt: skip


SEEN_BY_LOADS = [("ledger.number", 2**40), ("crystal.ended", 7)]
"""A number that is only too large for the rows in the file; a byte that no live tensor can get."""


@pytest.mark.parametrize(("kind", "name", "value"), WRONG)
def test_impossible_numbers_are_refused_by_load_and_load_memory_and_pickle(
    kind: str, name: str, value: float, tmp_path: Path
) -> None:
    state = changed(STATES[kind], name, 0, value)
    assert refused_or_usable(kind, state)
    memory = MEMORIES[kind]
    checkpoint.write(tmp_path / "file", memory._header(), state)  # its checksum fits
    for load in (memory.load, load_memory):
        with pytest.raises(CheckpointError, match=r"file: .*wanted"):
            load(tmp_path / "file")
    assert_same_state(STATES[kind], memory.state_dict())
    build, (header, arrays, device) = memory.__reduce__()  # type: ignore[misc]
    with pytest.raises(CheckpointError, match="wanted"):
        build(header, {**arrays, name: state[name].numpy()}, device)


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_check_finds_what_a_load_refuses(kind: str) -> None:
    """One home: every impossible number that `load_state_dict` refuses, `check` finds in a live memory."""
    for wanted, name, value in WRONG:
        if wanted == kind and (name, value) not in SEEN_BY_LOADS:
            memory = pickle.loads(pickle.dumps(MEMORIES[kind]))
            live = memory._tensors()[name]
            live.copy_(changed({name: live.contiguous()}, name, 0, value)[name])
            if name == "ledger.slot.weight":
                memory.ledger.tree.rebuild()
            with pytest.raises(AssertionError, match="wanted"):
                memory.check()


def test_tensors_of_other_widths_are_refused() -> None:
    state = {**STATES["crystal"], "ledger.slot.c": STATES["crystal"]["ledger.slot.c"][:, :5].clone()}
    assert refused_or_usable("crystal", state)


def test_what_is_not_a_tensor_is_refused() -> None:
    for odd in (None, 3, np.zeros(1), torch.zeros(1, device="meta"), torch.zeros(1).to_sparse()):
        assert refused_or_usable("uniform", {**STATES["uniform"], "memory.time": odd})  # type: ignore[dict-item]


def test_parts_are_named_without_their_prefix() -> None:
    assert sorted(part(STATES["uniform"], "windows")) == ["last", "length", "reward", "rows"]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_neighbour_lists_with_any_odd_number_are_refused_or_can_be_used(data: st.DataObject) -> None:
    pytest.importorskip("faiss")
    if "lists" not in MEMORIES:
        MEMORIES["lists"] = memory_of("lists")
        STATES["lists"] = MEMORIES["lists"].state_dict()
    names = sorted(name for name, tensor in STATES["lists"].items() if name.startswith("vicinity") and tensor.numel())
    assert names
    name = data.draw(st.sampled_from(names))
    place, value = data.draw(st.integers(0, 1 << 20)), data.draw(st.sampled_from(ODD))
    refused_or_usable("lists", changed(STATES["lists"], name, place, value))
