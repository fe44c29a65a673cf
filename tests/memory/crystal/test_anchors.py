"""Anchors: what they hold, how they follow, how strongly they pull."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition
from crystalrl.types import Evaluate
from tests.memory.crystal.experience import WithLists, feed, memory_of, with_output


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
    params = CrystalParams.anchored(alpha=0.0, sigma=0.0, interference="none", time_unit=1, phases=False, practice=0)
    memory = memory_of(8, params, anchor={"q": (2,)})
    for c in (0.0, 0.5, 1.0):
        feed(memory, 1, crystallization=c)
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": torch.zeros_like(b.obs)}))
    memory.time += 2
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": torch.ones_like(b.obs)}))
    follow = 1 - (1 - 0.25) ** 2  # two units of time at rate (1 − .5)²
    torch.testing.assert_close(memory.anchors["q"][0, :3, 0], torch.tensor([1.0, follow, 1e-9]), atol=1e-6, rtol=0)


def test_the_pull_of_an_anchor_grows_with_c_and_is_nothing_before_the_first_evaluation() -> None:
    params = CrystalParams.anchored(alpha=0.0, sigma=0.0, kappa={"q": 0.1, "v": 2.0}, anchor_power=3.0, practice=0)
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


HERE, THERE = (0.0, 0.0), (50.0, 50.0)
STANDING = CrystalParams.anchored(alpha=0.0, sigma=0.0, interference="none", time_unit=1)


def come(memory: CrystalMemory, place: tuple[float, float], context: int = 0, c: float = 0.0, count: int = 6) -> None:
    """Experiences around a place."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        state = (np.array(place) + rng.normal(size=2)).astype(np.float32)
        memory.add(Transition(state, 0, 0.0, state, False, context=context), crystallization=c)


def critic(value: float) -> Evaluate:
    return lambda batch: Evaluation(batch.reward, {"q": torch.full_like(batch.obs, value)})


@pytest.mark.parametrize("kind", [CrystalMemory, WithLists])
@pytest.mark.parametrize(("place", "context", "practised"), [(HERE, 0, True), (THERE, 0, False), (HERE, 1, False)])
def test_what_is_practised_is_not_held(
    kind: type[CrystalMemory], place: tuple[float, float], context: int, practised: bool
) -> None:
    """Fresh experience near it, in its context: full TD weight, no pull, and the anchor follows the network."""
    memory = memory_of(64, STANDING, kind, anchor={"q": (2,)}, context=True)
    come(memory, HERE, c=0.9)
    come(memory, THERE, c=0.9)
    memory.consolidate(critic(1.0))
    memory.consolidate(critic(2.0))  # nothing is fresh: all are held
    assert torch.equal(memory.ledger.held, memory.ledger.c)
    come(memory, place, context)
    memory.consolidate(critic(3.0))
    held = memory.ledger.held[0, :6]
    assert held.tolist() == pytest.approx([0.0 if practised else 0.9] * 6, abs=1e-3)
    assert memory.ledger.gate.of(held)[0].tolist() == pytest.approx([1.0 if practised else 0.01] * 6, abs=1e-3)
    anchor = memory.anchors["q"][0, :6]
    assert bool((anchor == 3.0).all()) == practised
    assert bool((anchor < 1.2).all()) != practised


def test_a_policy_is_anchored_in_units_of_what_is_at_stake() -> None:
    """Rewards a hundred times as large: so are the values that actions decide, and the strength of the anchor."""
    strengths = []
    for scale in (1.0, 100.0):
        memory = memory_of(64, replace(STANDING, practice=0), anchor={"q": (2,), "policy": (2,)})
        feed(memory, 12, crystallization=0.9)

        def evaluate(batch: Batch, scale: float = scale) -> Evaluation:
            return Evaluation(batch.reward, {"q": batch.obs, "policy": batch.obs}, scale * batch.obs[..., 0])

        memory.consolidate(evaluate)
        unit = scale * memory.experiences()["obs"][:, 0].square().mean().sqrt()
        anchors = memory.sample(4).anchor
        assert torch.allclose(anchors["policy"].coefficient, anchors["q"].coefficient * unit)
        strengths.append(anchors["q"].coefficient)
    assert torch.equal(*strengths)


def test_a_state_from_before_practice_holds_all() -> None:
    memory = memory_of(16, anchor={"q": (2,), "policy": (2,)})
    feed(memory, 12, crystallization=0.9)
    memory.consolidate(lambda b: Evaluation(b.reward, {"q": b.obs, "policy": b.obs}, b.reward))
    state = memory.state_dict()
    assert not torch.equal(state["ledger.slot.held"], state["ledger.slot.c"])
    memory.load_state_dict({n: t for n, t in state.items() if n not in ("ledger.slot.held", "crystal.unit")})
    assert torch.equal(memory.ledger.held, memory.ledger.c)
    assert memory.anchors.unit.tolist() == [1.0]
