"""Where a crystal memory must be something simpler, and what each switch of the paper's ablation table does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.libraries.learning import PLAIN
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, Transition, UniformMemory
from tests.experience import assert_same_batch
from tests.memory.crystal.experience import by_reward, feed, memory_of, stream, with_output

PRESETS = {"repaired": CrystalParams.repaired(), "paper": CrystalParams.paper(), "anchored": CrystalParams.anchored()}
FAST: dict[str, Any] = {"sigma": 0.1, "alpha": 0.9, "beta": 0.1, "time_unit": 10}


@pytest.mark.parametrize("preset", list(PRESETS))
def test_without_crystallization_it_is_prioritized_replay(preset: str) -> None:
    """Same slots, same weights, same batches, while both fill, overwrite and learn."""
    params = replace(PRESETS[preset], alpha=0.0, nu=0.5, is_exponent=0.7, is_steps=100, phases=False, spare=0.0)
    memory = memory_of(32, params, anchor={"q": (2,)})
    plain = PrioritizedMemory(32, obs=(2,), action=3, alpha=0.5, beta=0.7, is_steps=100, epsilon=1e-6, seed=0)
    rng = np.random.default_rng(0)

    def draw_and_learn() -> None:
        one, other = memory.sample(8), plain.sample(8)
        assert_same_batch(one, replace(other, anchor=one.anchor))
        error = rng.normal(size=8)
        memory.update(one, error)
        plain.update(other, error)

    for transition in stream(90):
        assert int(memory.add(transition)) == int(plain.add(transition))
        draw_and_learn()
    memory.consolidate(with_output)  # an update of everything with what the critic says
    held = memory.experiences()
    plain.update(held["index"], held["reward"])
    for _ in range(20):
        draw_and_learn()
    assert float(memory.ledger.c.max()) == 0


def test_without_gate_and_anchor_the_weight_is_the_importance_weight() -> None:
    """An equal memory whose gate is on differs by exactly the gate."""
    batches = {}
    for gate in (0.0, 2.0):
        memory = memory_of(64, CrystalParams.repaired(**FAST, gate=gate, w_min=0.0, kappa=0.0))
        feed(memory, 60)
        for _ in range(4):
            feed(memory, 10, seed=1)
            memory.consolidate(with_output)
        batches[gate] = memory.sample(32)
    plain, gated = batches[0.0], batches[2.0]
    assert torch.equal(plain.index, gated.index)
    c = memory.ledger.c[0, plain.index]
    assert float(c.max()) > 0.3
    assert float(plain.weight.max()) == 1.0  # importance weights, divided by their largest
    assert torch.allclose(gated.weight, plain.weight * (1 - c) ** 2)
    assert plain.anchor is None


def test_a_memory_without_anchors_replays_its_crystals_at_full_weight() -> None:
    """Nothing else would hold the network to them, nor the critic of an anchored policy. Where values are anchored,
    or no anchors are intended, the gate acts."""
    for params, anchor, wanted in (
        (CrystalParams(is_exponent=0.0), None, 1.0),
        (CrystalParams(is_exponent=0.0), {"policy": (2,)}, 1.0),
        (CrystalParams(is_exponent=0.0, practice=0), {"q": (2,)}, 0.01),
        (CrystalParams.repaired(is_exponent=0.0, w_min=0.0), None, 0.01),
    ):
        memory = memory_of(16, params, anchor=anchor)
        feed(memory, 6, crystallization=0.9)
        assert memory.sample(8).weight.tolist() == pytest.approx([wanted] * 8)
    assert memory_of(16).params == CrystalParams.unanchored()


def test_the_floor_holds_the_gate_up() -> None:
    memory = memory_of(16, CrystalParams.repaired(w_min=0.5, gate=2.0, is_exponent=0.0))
    feed(memory, 8, crystallization=0.9)
    assert memory.sample(8).weight.tolist() == [0.5] * 8


def grown(**changes: Any) -> Any:
    """A memory that has lived for a while with one switch changed."""
    params = replace(CrystalParams.paper(**{**FAST, "tau_evict": 5, "epsilon": 0.8, "delta_r": 0.5}), **changes)
    memory = memory_of(96, params)
    for turn in range(12):
        feed(memory, 20, seed=turn)
        report = memory.consolidate(by_reward)
    return memory, report


def test_everything_is_in_use_in_the_memory_whose_switches_are_tested() -> None:
    _, report = grown()
    assert report.values["contradicted"][0] > 10
    assert report.values["crystal"][0] > 0
    assert report.values["glass"][0] > 0


def test_alpha_zero_keeps_c_at_zero() -> None:
    memory, report = grown(alpha=0.0)
    assert float(memory.ledger.c.max()) == 0
    assert report.values["glass"][0] == report.values["crystal"][0] == 0


def test_gate_zero_switches_learning_rate_modulation_off() -> None:
    memory, _ = grown(gate=0.0, is_exponent=0.0)
    assert memory.sample(32).weight.tolist() == [1.0] * 32
    memory, _ = grown(is_exponent=0.0)
    assert float(memory.sample(32).weight.min()) < 0.2


def test_interference_none_flags_nothing() -> None:
    memory, report = grown(interference="none")
    assert report.values["contradicted"][0] == 0
    assert float(memory.ledger.interference.max()) == 0
    CrystalParams.anchored(interference="none")


def test_w2_zero_makes_utility_blind_to_novelty() -> None:
    """The same experience over and over: with novelty its utility falls, without it does not."""

    def fall(**changes: Any) -> float:
        memory = memory_of(64, CrystalParams.repaired(Z=5.0, w1=0.5, w3=0.0, boost=False, every=10, **changes))
        first, *_ = stream(1)
        utilities = []
        for _ in range(3):
            for _ in range(10):
                memory.add(first)
            memory.consolidate(lambda batch: torch.ones_like(batch.reward))
            utilities.append(float(memory.ledger.utility[0, 0]))
        return utilities[0] - utilities[-1]

    assert fall(w2=0.0) == 0
    assert fall(w2=0.3) > 0.02


def test_w3_zero_makes_utility_blind_to_the_neighbours() -> None:
    """Experience 0 has no error of its own, all others have: only the downstream value can raise its utility."""

    def utility(w3: float) -> float:
        memory = memory_of(32, CrystalParams.repaired(w1=0.5, w2=0.0, w3=w3, boost=False))
        feed(memory, 20)
        memory.consolidate(lambda batch: (batch.index > 0).float())
        return float(memory.ledger.utility[0, 0])

    assert utility(0.0) == 0
    assert utility(0.2) == pytest.approx(0.2 * 0.5)


def test_phases_false_is_one_buffer() -> None:
    memory, report = grown(phases=False, spare=0.0)
    assert report.values["liquid"][0] == 96
    assert float(memory.ledger.c.max()) > 0.7
    assert memory.params.caps(96) == (96, 0, 0)


def test_sigma_zero_makes_c_a_function_of_the_experiences() -> None:
    """Two seeds differ in nothing but their noise, so without noise they agree."""

    def states(sigma: float) -> list[torch.Tensor]:
        out = []
        for seed in (1, 2):
            memory = memory_of(64, CrystalParams.repaired(**{**FAST, "sigma": sigma}, phases=False), seed=seed)
            feed(memory, 40)
            feed(memory, 10, seed=1)
            memory.consolidate(by_reward)
            out.append(memory.ledger.c.clone())
        return out

    assert torch.equal(*states(0.0))
    assert not torch.equal(*states(0.1))


@pytest.mark.parametrize("base", [CrystalParams.repaired(boost=False), CrystalParams.anchored()])
def test_downstream_random_changes_the_value_and_nothing_else(base: CrystalParams) -> None:
    """Same errors, flags and interference; a different V."""
    seen = {}
    for how in ("neighbours", "random"):
        params = replace(base, downstream=how, w2=0.0, epsilon=1.5, delta_r=0.5, time_unit=20)
        memory = memory_of(64, params)
        feed(memory, 40, crystallization=0.5)
        feed(memory, 20, seed=1)
        memory.consolidate(by_reward)
        seen[how] = memory.ledger
    one, other = seen["neighbours"], seen["random"]
    assert torch.equal(one.error, other.error)
    assert torch.equal(one.interference, other.interference)
    assert float(one.interference.max()) > 0
    assert not torch.equal(one.utility, other.utility)


def test_with_c_zero_every_batch_is_that_of_a_uniform_memory() -> None:
    spaces = {"obs": (3,), "action": 2, "envs": 4, "gamma": 0.9, "seed": 7}
    ours, uniform = CrystalMemory(600, params=PLAIN, **spaces), UniformMemory(600, **spaces)
    rng, consolidations = np.random.default_rng(0), 0
    for _ in range(500):
        obs, after = rng.normal(size=(2, 4, 3)).astype(np.float32)
        step = Transition(obs, rng.integers(2, size=4), rng.normal(size=4), after, rng.random(4) < 0.1)
        for memory in (ours, uniform):
            memory.add(step)
        one, two = ours.sample(32), uniform.sample(32)
        for name in ("obs", "action", "reward", "next_obs", "discount", "weight"):
            assert torch.equal(getattr(one, name), getattr(two, name)), name
        ours.update(one, torch.rand(32))
        if ours.due:
            ours.consolidate(lambda batch: torch.rand(len(batch.reward)))
            consolidations += 1
    assert consolidations > 5
