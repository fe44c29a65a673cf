"""A memory over another library's storage equals one that stores the experiences itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.memory.storage.external import ExternalArena, storage_options

SLOTS, STEPS, D = 120, 40, 3
PARAMS = CrystalParams.anchored(time_unit=20, every=40, alpha=2.0, kappa=0.0, settle=None)
EPISODES = replace(PARAMS, every=10_000, every_episode=True)


def experiences(seed: int, count: int = STEPS) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "obs": torch.randn(count, D, generator=g),
        "action": torch.randint(2, (count,), generator=g),
        "reward": torch.randn(count, generator=g),
        "next_obs": torch.randn(count, D, generator=g),
        "terminated": torch.rand(count, generator=g) < 0.1,
        "truncated": torch.rand(count, generator=g) < 0.1,
    }


class Library:
    """A storage of tensors, and a memory over it."""

    def __init__(self, params: CrystalParams = PARAMS) -> None:
        like = experiences(0, SLOTS)
        self.columns = {name: torch.zeros_like(column) for name, column in like.items()}
        self.fetches = 0
        self.memory = CrystalMemory(
            SLOTS, params=params, arena=ExternalArena(SLOTS, self.fetch), seed=5, **storage_options(like, 2)
        )

    def fetch(self, slots: Tensor) -> Mapping[str, Any]:
        self.fetches += 1
        return {name: column[slots] for name, column in self.columns.items()}

    def store(self, new: Mapping[str, Tensor]) -> Tensor:
        slots = self.memory.reserve_slots(len(new["reward"]))
        for name, column in self.columns.items():
            column[slots] = new[name]
        self.memory.commit(slots, new["terminated"] | new["truncated"])
        return slots


def error(obs: Tensor) -> Tensor:
    return obs.abs().sum(-1)


@pytest.mark.parametrize("params", [PARAMS, EPISODES], ids=["by steps", "by episodes"])
def test_states_and_draws_are_those_of_a_memory_with_its_own_storage(params: CrystalParams) -> None:
    library = Library(params)
    own = CrystalMemory(SLOTS, params=params, obs=(D,), action=2, envs=STEPS, gamma=1.0, seed=5)
    for seed in range(8):
        new = experiences(seed)
        slots = library.store(new)
        parts = (new[name] for name in ("obs", "action", "reward", "next_obs", "terminated", "truncated"))
        assert torch.equal(slots, own.add(Transition(*parts)))
        batch, twin = library.memory.sample(32), own.sample(32)
        assert torch.equal(batch.index, twin.index)
        assert torch.equal(batch.weight, twin.weight)
        assert batch.obs is None
        for memory in (library.memory, own):
            memory.update(twin.index, error(twin.obs))
        assert library.memory.due
        assert own.due
        library.memory.consolidate(lambda given: error(library.columns["obs"][given.index]))
        own.consolidate(lambda given: error(given.obs))
    states = [memory.state_dict() for memory in (library.memory, own)]
    assert states[0].keys() == states[1].keys()
    odd = [name for name in states[0] if not torch.equal(states[0][name], states[1][name])]
    assert odd == ["memory.slot.rows", "crystal.started"]  # slot numbers as rows; one environment instead of many
    found, kept = library.memory.experiences(), own.experiences()
    assert all(torch.equal(found[name], kept[name]) for name in ("obs", "action", "reward", "c", "phase", "index"))
    assert all(torch.equal(found[name], kept[name]) for name in ("terminated", "truncated", "discount"))
    library.memory.check()


def test_free_slots_are_reserved_in_order() -> None:
    library = Library()
    assert library.store(experiences(0, 5)).tolist() == [0, 1, 2, 3, 4]
    assert library.store(experiences(1, 3)).tolist() == [5, 6, 7]
    assert int(library.memory.time) == 8


def test_nothing_is_fetched_before_a_consolidation() -> None:
    library = Library()
    library.store(experiences(0))
    library.memory.sample(8)
    assert library.fetches == 0


def test_columns_are_fetched_once_until_the_storage_changes() -> None:
    library = Library()
    library.store(experiences(0))
    arena = library.memory.arena
    assert torch.equal(arena.columns["reward"], library.columns["reward"])
    assert arena.columns["reward"] is arena.columns["reward"]
    assert library.fetches == 1
    library.store(experiences(1))
    assert torch.equal(arena.columns["reward"], library.columns["reward"])
    assert library.fetches == 2


def test_shapes_and_dtypes_of_fields_become_arguments_of_a_memory() -> None:
    fields = {"obs": {"a": torch.zeros(2, 3), "b": torch.zeros(2, dtype=torch.uint8)}, "action": torch.zeros(2, 4)}
    assert storage_options(fields, None) == {
        "obs": {"a": (3,), "b": ()},
        "obs_dtype": {"a": torch.float32, "b": torch.uint8},
        "action": (4,),
        "action_dtype": torch.float32,
    }
    assert storage_options({"obs": torch.zeros(2, 3), "action": torch.zeros(2)}, 6) == {
        "obs": (3,),
        "obs_dtype": torch.float32,
        "action": 6,
    }


def test_frames_are_not_stored_once_in_another_librarys_storage() -> None:
    arena = ExternalArena(SLOTS, lambda slots: experiences(0, len(slots)))
    with pytest.raises(ValueError, match=r"^stack: wanted None, because another library stores the experiences, got 2"):
        CrystalMemory(SLOTS, obs=(2, 3), action=2, stack=2, arena=arena)


def test_rows_of_a_lane_and_fields_of_the_first_slots_are_those_of_the_library() -> None:
    library = Library()
    arena = library.memory.arena
    assert arena.read_lane(0, torch.tensor([3, 1])).tolist() == [[3], [1]]
    assert torch.equal(arena.fields(4)["obs"], library.columns["obs"][None, :4])
    assert arena.fields()["reward"].shape == (1, SLOTS)
