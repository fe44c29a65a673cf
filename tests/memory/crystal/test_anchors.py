"""Anchors: what they hold, how they follow, how strongly they pull."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crystalrl import CrystalParams, Evaluation
from tests.memory.crystal.experience import feed, memory_of, with_output


def test_the_first_anchor_is_the_output_whatever_the_slot_held_before() -> None:
    memory = memory_of(8, CrystalParams.anchored(), anchor={"q": (2,)})
    feed(memory, 8)
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": b.obs * 1e12}))
    feed(memory, 40, seed=1)
    memory.consolidate(with_output)
    held = memory.experiences()
    fresh = memory.ledger.birth[0, held["index"]] >= 8
    assert int(fresh.sum()) >= 3
    assert torch.equal(memory.anchors["q"][0, held["index"][fresh]], held["obs"][fresh])


def test_anchors_of_liquid_follow_the_network_and_those_of_crystals_stand_still() -> None:
    params = CrystalParams.anchored(alpha=0.0, sigma=0.0, interference="none", time_unit=1, phases=False)
    memory = memory_of(8, params, anchor={"q": (2,)})
    for c in (0.0, 0.5, 1.0):
        feed(memory, 1, crystallization=c)
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": torch.zeros_like(b.obs)}))
    memory.time += 2
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": torch.ones_like(b.obs)}))
    follow = 1 - (1 - 0.25) ** 2  # two units of time at rate (1 − .5)²
    torch.testing.assert_close(memory.anchors["q"][0, :3, 0], torch.tensor([1.0, follow, 1e-9]), atol=1e-6, rtol=0)


def test_the_pull_of_an_anchor_grows_with_c_and_is_nothing_before_the_first_evaluation() -> None:
    params = CrystalParams.anchored(alpha=0.0, sigma=0.0, kappa={"q": 0.1, "v": 2.0}, anchor_power=3.0)
    memory = memory_of(16, params, anchor={"q": (2,), "v": ()})
    feed(memory, 4, crystallization=0.9)
    assert memory.sample(4).anchor["q"].coefficient.tolist() == [0.0] * 4
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": b.obs, "v": b.reward}))
    batch = memory.sample(4)
    assert batch.anchor["q"].coefficient.tolist() == pytest.approx([0.1 * 0.9**3] * 4, rel=1e-3)
    assert batch.anchor["v"].coefficient.tolist() == pytest.approx([2.0 * 0.9**3] * 4, rel=1e-3)
    assert torch.equal(batch.anchor["q"].target, batch.obs)
    assert torch.equal(batch.anchor["v"].target, batch.reward)


@pytest.mark.parametrize("shape", [5, [5], (0,), (2.0,), "q"])
def test_anchors_of_a_wrong_shape_are_refused_when_built(shape: Any) -> None:
    with pytest.raises(ValueError, match="anchor q: wanted the shape"):
        memory_of(16, anchor={"q": shape})


def test_strengths_must_name_the_anchors() -> None:
    for names in ({"q": 0.1, "v": 0.1}, {"v": 0.1}, {}):
        with pytest.raises(ValueError, match="kappa"):
            memory_of(16, CrystalParams.repaired(kappa=names), anchor={"q": (2,)})
