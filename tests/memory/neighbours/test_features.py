"""The vectors and codes by which experiences are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.memory.neighbours.features import Features, flatten
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.random import Streams
from tests.experience import assert_same_state
from tests.memory.crystal.experience import WithLists


def test_features_must_be_vectors() -> None:
    with pytest.raises(ValueError, match="features: wanted vectors"):
        CrystalMemory(16, obs=(2,), action=3, features=lambda obs: obs.sum(-1))


def features_of(**structure: Any) -> Features:
    shape: dict[str, Any] = {"obs": (2,), "action": 3, "lanes": 2, **structure}
    return Features(StorageSpec(10, **shape), Streams([5, 6]))


def test_parts_of_an_observation_are_joined_in_the_order_of_their_names() -> None:
    obs = {"b": torch.arange(12).view(1, 2, 3, 2), "a": torch.tensor([[[True], [False]]])}
    assert flatten(obs).tolist() == [[[1, 0, 1, 2, 3, 4, 5], [0, 6, 7, 8, 9, 10, 11]]]
    assert flatten(obs).dtype == torch.float32


def test_a_small_observation_is_its_own_vector_and_a_large_one_is_projected() -> None:
    small, large = torch.rand(2, 5, 64), torch.rand(2, 5, 65)
    assert torch.equal(features_of(obs=(64,)).states(small), small)
    assert features_of(obs=(65,)).states(large).shape == (2, 5, 32)


def test_a_projection_is_linear_keeps_distances_on_average_and_is_each_lanes_own() -> None:
    rng, features = torch.Generator().manual_seed(0), features_of(obs=(200,))
    one, other = torch.randn(2, 2, 400, 200, generator=rng)
    one[1], other[1] = one[0], other[0]
    projected = [features.states(x) for x in (one, other)]
    torch.testing.assert_close(features.states(one - other), projected[0] - projected[1], rtol=1e-3, atol=1e-4)
    ratio = (projected[0] - projected[1]).square().sum(-1) / (one - other).square().sum(-1)
    assert bool(((ratio.mean(-1) - 1).abs() < 0.1).all())
    assert not torch.allclose(projected[0][0], projected[0][1])
    torch.testing.assert_close(features.states(one), projected[0])


def test_states_are_compared_as_stored_unless_they_are_mapped_projected_or_in_half_precision() -> None:
    assert features_of().plain
    assert not features_of(obs=(65,)).plain
    assert not features_of(obs={"a": (2,)}).plain
    assert not features_of(obs_dtype=torch.float16).plain
    given = Features(features_of().spec, Streams([5, 6]), lambda obs: obs)  # type: ignore[arg-type, return-value]
    assert not given.plain


def test_a_grid_cell_is_of_one_context_and_discrete_action_or_of_a_box_action() -> None:
    obs, reward = torch.rand(2, 3, 2), torch.zeros(2, 3)
    action, context = torch.tensor([[0, 1, 1], [2, 2, 0]]), torch.tensor([[0, 0, 1], [-1, 3, 3]], dtype=torch.int32)
    fields: dict[str, Any] = {"obs": obs, "reward": reward, "action": action, "context": context}
    discrete = features_of(context=True)
    assert torch.equal(discrete.grid_vectors(fields), obs)
    codes = discrete.grid_codes(fields)
    pairs = {
        (int(a), int(k)): int(code) for a, k, code in zip(*(x.flatten() for x in (action, context, codes)), strict=True)
    }
    assert len(set(pairs.values())) == len(pairs) == 6
    assert torch.equal(discrete.grid_codes({**fields, "context": None}), action)
    box = torch.rand(2, 3, 1, 2)
    boxed = features_of(action=(1, 2))
    assert torch.equal(boxed.grid_vectors({**fields, "action": box}), torch.cat([obs, box.flatten(2)], -1))
    assert torch.equal(boxed.grid_codes({**fields, "action": box, "context": None}), torch.zeros(2, 3).long())


def test_large_observations_of_the_paper_are_compared_whole() -> None:
    spec, large = StorageSpec(10, obs=(200,), action=3), torch.rand(1, 5, 200)
    features = Features(spec, Streams([5]), params=CrystalParams.paper())
    assert torch.equal(features.states(large), large)
    assert features.plain
    assert Features(spec, Streams([5]), params=CrystalParams.anchored()).states(large).shape == (1, 5, 32)


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("options", [{"stack": 4}, {"stack": 4, "lanes": 2}, {}])
def test_images_consolidated_part_by_part_give_the_same(
    options: dict[str, Any], lists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for part in (Features.part_bytes, 7 * 4 * 4 * 12 * 12 * options.get("lanes", 1)):
        monkeypatch.setattr(Features, "part_bytes", part)
        memory = (WithLists if lists else CrystalMemory)(
            120, obs=(4, 12, 12), obs_dtype=torch.uint8, action=3, seed=0, **options
        )
        watched(memory, 180)
        states.append(memory.state_dict())
    assert int(memory.consolidations.min()) == 3
    assert_same_state(*states)


def watched(memory: CrystalMemory, steps: int) -> None:
    """Steps of environments with images, with a consolidation from time to time."""
    rng, lead = np.random.default_rng(0), (memory.lanes, 1) if memory.spec.lanes else ()
    obs = rng.integers(0, 256, (*lead, 4, 12, 12), dtype=np.uint8)
    for number in range(steps):
        follows = np.roll(obs, -1, axis=-3)
        follows[..., -1, :, :] = rng.integers(0, 256, (*lead, 12, 12), dtype=np.uint8)
        ends = np.zeros(lead, bool)
        memory.add(Transition(obs, rng.integers(3, size=lead), rng.random(lead), follows, ends))
        obs = follows
        if number % 60 == 59:
            memory.consolidate(lambda batch: batch.reward)


def test_a_consolidation_holds_few_images_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def count(obs: Any) -> torch.Tensor:
        seen.append(obs.shape[1])
        return flatten(obs)[..., :40]

    monkeypatch.setattr(Features, "part_bytes", 50 * 4 * 4 * 12 * 12)
    memory = CrystalMemory(120, obs=(4, 12, 12), obs_dtype=torch.uint8, action=3, stack=4, features=count)
    watched(memory, 120)
    assert len(memory) == 120
    assert max(seen) == 50
