"""Batches: what was drawn, with or without an axis of lanes, here or on another device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import UniformMemory
from crystalrl.memory import ReplayMemory
from crystalrl.memory.storage.batches import gather_batch
from crystalrl.types import Anchor
from tests.experience import FIELDS, MEMORIES, MIXED, SMALL, random_step, simple, stacked
from tests.memory.refusals import begun


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_batch_is_the_users_own_and_so_is_what_was_added(kind: type[ReplayMemory]) -> None:
    memory = kind(5, **SMALL)
    step = simple(3)
    memory.add(step)
    step.obs.fill(-1)
    step.next_obs.fill(-1)
    batch = memory.sample(4)
    for tensor in (batch.obs, batch.next_obs, batch.reward, batch.weight):
        tensor.fill_(-5)
    again = memory.sample(4)
    assert again.obs.tolist() == [[3.0, 3.0]] * 4
    assert again.next_obs.tolist() == [[4.0, 4.0]] * 4
    assert again.weight.tolist() == [1.0] * 4


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_batch_may_be_larger_than_the_memory(kind: type[ReplayMemory]) -> None:
    batch = begun(kind).sample(3000)
    counts = torch.bincount(batch.index, minlength=10)
    assert counts[3:].sum() == 0
    assert (counts[:3] - 1000).abs().max() < 150  # three equal priorities; five standard deviations are 129


def filled(lanes: int | None) -> UniformMemory:
    memory, rng = UniformMemory(20, **MIXED, lanes=lanes, context=True), np.random.default_rng(0)
    for _ in range(20):
        memory.add(stacked([[random_step(rng, mixed=True, context=True)] for _ in range(lanes or 1)], lanes))
    return memory


@pytest.mark.parametrize("lanes", [None, 3])
def test_a_batch_holds_the_fields_of_its_slots_lane_by_lane(lanes: int | None) -> None:
    memory, count, squeeze = filled(lanes), lanes or 1, lanes is None
    slots = torch.randint(0, 20, (count, 6), generator=torch.Generator().manual_seed(0))
    weight, target = torch.rand(count, 6), torch.rand(count, 6, 2)
    anchors = {"q": Anchor(target, weight * 2)}
    batch = gather_batch(memory.arena, slots, weight, to=torch.device("cpu"), squeeze=squeeze, anchors=anchors)
    stored = memory.arena.unpack(memory.arena.rows)
    lane = torch.arange(count)[:, None]
    stored = {
        name: {k: v[lane, slots] for k, v in x.items()} if isinstance(x, dict) else x[lane, slots]
        for name, x in stored.items()
    }
    wanted: dict[str, Any] = {**stored, "weight": weight, "index": slots}
    assert batch.anchor is not None
    got = {name: getattr(batch, name) for name in FIELDS}
    for name, value in (*wanted.items(), ("target", target), ("coefficient", weight * 2)):
        there = got.get(name, getattr(batch.anchor["q"], name, None))
        for one, other in zip(*([*x.values()] if isinstance(x, dict) else [x] for x in (there, value)), strict=True):
            assert torch.equal(one, other[0] if squeeze else other), name
    assert isinstance(batch.obs, dict)
    assert [*batch.obs] == [*MIXED["obs"]]


@pytest.mark.parametrize("lanes", [None, 3])
def test_a_batch_for_another_device_has_the_same_shapes_and_dtypes_there(lanes: int | None) -> None:
    memory, count, squeeze = filled(lanes), lanes or 1, lanes is None
    given = torch.zeros(count, 6, dtype=torch.int64), torch.rand(count, 6)
    here, there = (
        gather_batch(memory.arena, *given, to=torch.device(to), squeeze=squeeze, anchors={"q": Anchor(*given)})
        for to in ("cpu", "meta")
    )
    assert here.anchor is not None
    assert there.anchor is not None
    assert isinstance(here.obs, dict)
    assert isinstance(there.obs, dict)
    pairs = [(getattr(here, name), getattr(there, name)) for name in FIELDS if not name.endswith("obs")]
    pairs += [(here.obs[name], there.obs[name]) for name in here.obs]
    pairs += [(here.anchor["q"].target, there.anchor["q"].target)]
    for one, other in pairs:
        assert other.device.type == "meta"
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


def test_a_batch_without_anchors_has_none() -> None:
    memory, slots = filled(None), torch.zeros(1, 2, dtype=torch.int64)
    for none in (None, {}):
        given = {"to": torch.device("cpu"), "squeeze": True, "anchors": none}
        assert gather_batch(memory.arena, slots, torch.ones(1, 2), **given).anchor is None
