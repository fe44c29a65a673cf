"""Files: what is loaded continues bit for bit; no pickle is read or written."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CheckpointError, PrioritizedMemory, UniformMemory, load_memory
from crystalrl.memory import ReplayMemory
from tests.experience import (
    MEMORIES,
    PLAIN,
    SMALL,
    assert_same_batch,
    assert_same_state,
    feed,
    random_step,
    simple,
    stacked,
)
from tests.memory.storage.lives import lively, work


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", MEMORIES)
def test_after_load_the_next_thousand_batches_are_the_same(
    backend: str, tmp_path: Path, kind: type[ReplayMemory], fresh: bool
) -> None:
    memory = lively(kind)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m") if fresh else lively(kind, seed=99)
    if not fresh:
        other.load(tmp_path / "m")
    assert_same_state(memory.state_dict(), other.state_dict())
    other.check()
    rng = np.random.default_rng(0)
    for k in range(1_000):
        one, two = memory.sample(32), other.sample(32)
        assert_same_batch(one, two)
        error = rng.normal(size=tuple(one.index.shape))
        memory.update(one, error)
        other.update(two, error)
        if k % 10 == 0:
            step = stacked([[random_step(rng, True, True) for _ in range(2)] for _ in range(2)], 2)
            assert torch.equal(memory.add(step), other.add(step))
    assert_same_state(memory.state_dict(), other.state_dict())


@pytest.mark.parametrize("kind", MEMORIES)
def test_an_empty_memory_can_be_saved_and_loaded(tmp_path: Path, kind: type[ReplayMemory]) -> None:
    memory = kind(30, **PLAIN)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    assert len(other) == 0
    other.check()
    full = kind(30, **PLAIN)
    work(full, 50, np.random.default_rng(0))
    full.load(tmp_path / "m")
    assert len(full) == 0
    full.check()


def test_an_update_that_was_under_way_is_still_understood_after_loading(tmp_path: Path) -> None:
    memory = PrioritizedMemory(2, **SMALL, alpha=1.0, epsilon=1e-9)
    feed(memory, 2)
    batch = memory.sample(2)
    while set(batch.index.tolist()) != {0, 1}:
        batch = memory.sample(2)
    memory.add(simple(2))
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    other.update(batch, torch.tensor([5.0, 5.0]))
    assert other.ledger.tree.weight[0, :2].tolist() == [1.0, 5.0]


def test_draws_from_before_a_load_are_forgotten(tmp_path: Path) -> None:
    """A slot that was drawn but is empty in the loaded file: the next experience stored there can be updated."""
    memory = PrioritizedMemory(8, **SMALL)
    memory.save(tmp_path / "empty")
    memory.add(simple(0))
    memory.sample(1)
    memory.load(tmp_path / "empty")
    slot = memory.add(simple(1))
    memory.update(slot[None], torch.tensor([3.0]))
    assert float(memory.ledger.tree.weight[0, slot]) == pytest.approx(3.0**0.6, rel=1e-5)


@pytest.mark.parametrize("names", [("z", "a", "m"), ("a", "m", "z")])
def test_parts_of_a_dict_observation_keep_their_names_in_whatever_order_they_were_declared(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    memory = UniformMemory(4, obs={name: (ord(name) % 5 + 1,) for name in names}, action=2)
    obs = {name: np.full(ord(name) % 5 + 1, ord(name), np.float32) for name in names}
    step = simple(0)
    memory.add(type(step)(obs, 0, 0.0, obs, False))
    memory.save(tmp_path / "m")
    other = UniformMemory(4, obs={name: (ord(name) % 5 + 1,) for name in sorted(names, reverse=True)}, action=2)
    other.load(tmp_path / "m")
    for loaded in (load_memory(tmp_path / "m"), other):
        batch = loaded.sample(1)
        for name in names:
            assert batch.obs[name].tolist() == [[ord(name)] * (ord(name) % 5 + 1)]
            assert batch.next_obs[name].tolist() == [[ord(name)] * (ord(name) % 5 + 1)]


def test_parameters_come_back_with_load_memory(tmp_path: Path) -> None:
    memory = PrioritizedMemory(5, **PLAIN, lanes=2, alpha=[0.1, 0.9], beta=0.3, is_steps=77, epsilon=0.2)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    assert type(other) is PrioritizedMemory
    assert list(other.params.alpha) == [0.1, 0.9]
    assert (other.params.beta, other.params.is_steps, other.params.epsilon) == (0.3, 77, 0.2)


def test_a_file_holds_only_what_is_used(tmp_path: Path) -> None:
    memory = UniformMemory(100_000, obs=(50,), action=2)
    memory.save(tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_size < 10_000


def test_no_pickle_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle was used")

    memory = lively(PrioritizedMemory)
    for name in ("Unpickler", "Pickler", "load", "loads", "dump", "dumps"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    memory.save(tmp_path / "m")
    assert_same_state(load_memory(tmp_path / "m").state_dict(), memory.state_dict())


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "ran").touch, ())

    (tmp_path / "m").write_bytes(pickle.dumps(Trap()))
    torch.save({"a": torch.zeros(3)}, tmp_path / "t")
    for name in ("m", "t"):
        with pytest.raises(CheckpointError):
            load_memory(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_a_file_of_another_kind_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import torch\n")
    with pytest.raises(CheckpointError, match=r"agent\.py: not a crystalrl file, or truncated"):
        load_memory(tmp_path / "agent.py")


def test_a_state_is_a_copy(tmp_path: Path) -> None:
    memory = lively(PrioritizedMemory)
    state = memory.state_dict()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    work(memory, 10, np.random.default_rng(8))
    assert_same_state(state, kept)
    memory.load_state_dict(state)
    work(memory, 10, np.random.default_rng(9))
    assert_same_state(state, kept)


def test_the_header_can_be_read_without_this_library(tmp_path: Path) -> None:
    PrioritizedMemory(5, **SMALL, alpha=0.25).save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["header"])
    assert header["kind"] == "PrioritizedMemory"
    assert header["params"]["alpha"] == 0.25
    assert header["structure"]["capacity"] == 5
