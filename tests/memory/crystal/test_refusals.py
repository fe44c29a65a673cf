"""Wrong input is refused with a message that says what was wanted, and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation
from tests.experience import assert_same_state
from tests.memory.crystal.experience import by_reward, feed, memory_of, snapshot, stream, with_output


def refused(memory: CrystalMemory, evaluate: Any, message: str) -> None:
    before = snapshot(memory)
    with pytest.raises(ValueError, match=message):
        memory.consolidate(evaluate)
    assert_same_state(before, memory.state_dict())
    memory.check()


def ready(**options: Any) -> CrystalMemory:
    memory = memory_of(32, CrystalParams.anchored(time_unit=10), anchor={"q": (2,)}, **options)
    for transition in stream(20, lead=(options["lanes"], 1) if "lanes" in options else None):
        memory.add(transition)
    memory.consolidate(with_output)
    memory.sample(4)
    for transition in stream(20, seed=1, lead=(options["lanes"], 1) if "lanes" in options else None):
        memory.add(transition)
    return memory


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_critic_that_says_nan_or_infinity_changes_nothing(bad: float) -> None:
    memory = ready()

    def spoilt(batch: Batch, what: str) -> Evaluation:
        good = with_output(batch)
        error, output = good.td_error.clone(), good.output["q"].clone()  # type: ignore[index]
        if what == "td_error":
            error[3] = bad
        else:
            output[3, 1] = bad
        return Evaluation(error, {"q": output})

    refused(memory, lambda batch: spoilt(batch, "td_error"), "evaluate: wanted finite td_error")
    refused(memory, lambda batch: spoilt(batch, "q"), "evaluate: wanted finite q")


def test_a_critic_that_raises_changes_nothing() -> None:
    memory = ready()
    before = snapshot(memory)
    with pytest.raises(ZeroDivisionError):
        memory.consolidate(lambda batch: 1 / 0)
    assert_same_state(before, memory.state_dict())


@pytest.mark.parametrize("shape", [(), (1,), (31,), (32, 1), (1, 32)])
def test_td_errors_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    refused(ready(), lambda b: Evaluation(torch.ones(shape), {"q": b.obs}), r"evaluate: wanted td_error of shape \[")


@pytest.mark.parametrize("shape", [(2,), (1, 2), (32, 3), (32,), (1, 32, 2)])
def test_outputs_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    refused(ready(), lambda b: Evaluation(b.reward, {"q": torch.ones(shape)}), r"evaluate: wanted q of shape \[")


def test_with_lanes_one_lanes_answer_for_all_is_refused() -> None:
    memory = ready(lanes=3)
    refused(memory, lambda b: Evaluation(b.reward[:1], {"q": b.obs}), r"evaluate: wanted td_error of shape \[3, ")
    refused(memory, lambda b: Evaluation(b.reward, {"q": b.obs[:1]}), r"evaluate: wanted q of shape \[3, ")


def test_a_missing_output_is_refused_by_its_name() -> None:
    refused(ready(), by_reward, r"evaluate: wanted output\['q'\] for the anchor, got \[\]")
    refused(ready(), lambda b: Evaluation(b.reward, {"v": b.obs}), r"wanted output\['q'\] for the anchor, got \['v'\]")


def test_what_a_critic_says_of_slots_that_are_empty_in_a_lane_does_not_matter() -> None:
    """Lane 0 holds more than lane 1, so it is asked about slots that are empty in lane 1."""

    def evaluate(batch: Batch, junk: float) -> Evaluation:
        empty = batch.obs.abs().sum(-1) == 0  # type: ignore[union-attr]
        output = batch.obs * 2  # type: ignore[operator]
        return Evaluation(
            batch.reward.masked_fill(empty, junk), {"q": output.masked_fill(empty[..., None], junk)}
        )  # fmt: skip

    states = []
    for junk in (0.0, float("nan")):
        memory = memory_of(32, CrystalParams.anchored(time_unit=10), anchor={"q": (2,)}, lanes=2)
        for number, transition in enumerate(stream(30, lead=(2, 1))):
            memory.add(transition, valid=[[True], [number < 10]])
        for _ in range(3):
            memory.time += 10
            memory.consolidate(lambda b, junk=junk: evaluate(b, junk))
        states.append(memory.state_dict())
    assert_same_state(*states)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), [0.5, 0.5], "much"])
def test_crystallization_outside_the_unit_interval_or_misshapen_is_refused(bad: Any) -> None:
    memory = memory_of(16)
    feed(memory, 4)
    before = snapshot(memory)
    with pytest.raises((ValueError, TypeError)):
        memory.add(next(stream(1)), crystallization=bad)
    assert_same_state(before, memory.state_dict())
    feed(memory, 1)
    assert float(memory.ledger.c.max()) == 0  # nothing of the refused value is left


@pytest.mark.parametrize("bad", [[5], [-1], [16], [0, 9], [[0]], [0.0]])
def test_pinning_what_is_not_there_is_refused(bad: Any) -> None:
    memory = memory_of(16)
    feed(memory, 4)
    before = snapshot(memory)
    with pytest.raises(ValueError, match="pin: wanted"):
        memory.pin(torch.tensor(bad))
    assert_same_state(before, memory.state_dict())


def test_pinning_an_evicted_slot_is_refused_even_if_it_was_drawn() -> None:
    memory = memory_of(32, CrystalParams(alpha=0.0))
    feed(memory, 32)
    memory.sample(32)
    memory.consolidate(by_reward)
    gone = [slot for slot in range(32) if int(memory.ledger.phase[0, slot]) == 0]
    with pytest.raises(ValueError, match="pin: wanted"):
        memory.pin(torch.tensor(gone[:1]))


@pytest.mark.parametrize("shape", [5, [5], (0,), (2.0,), "q"])
def test_anchors_of_a_wrong_shape_are_refused_when_built(shape: Any) -> None:
    with pytest.raises(ValueError, match="anchor q: wanted the shape"):
        memory_of(16, anchor={"q": shape})


def test_strengths_must_name_the_anchors() -> None:
    for names in ({"q": 0.1, "v": 0.1}, {"v": 0.1}, {}):
        with pytest.raises(ValueError, match="kappa"):
            memory_of(16, CrystalParams(kappa=names), anchor={"q": (2,)})


LANE_FIELDS = [
    "alpha", "beta", "sigma", "leak", "melt", "settle", "tau_L", "tau_C", "w1", "w2", "w3", "Z", "epsilon", "delta_r",
    "gate", "w_min", "kappa", "anchor_power", "nu", "is_exponent",
]  # fmt: skip


@pytest.mark.parametrize("name", LANE_FIELDS)
def test_values_for_another_number_of_lanes_are_refused_when_the_memory_is_built(name: str) -> None:
    value = {"tau_C": 0.8, "w1": 0.1, "w2": 0.1, "w3": 0.1}.get(name, 0.2)
    params = CrystalParams(**{name: (value, value)})
    memory_of(16, params, lanes=2, anchor={"q": (2,)})
    with pytest.raises(ValueError, match=f"{name}: wanted one number, or 3"):
        memory_of(16, params, lanes=3, anchor={"q": (2,)})


def test_a_memory_too_small_for_its_environments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"capacity: wanted at least envs × n_step = 12 liquid slots, got 10 of 16"):
        memory_of(16, envs=4, n_step=3)
    memory_of(20, envs=4, n_step=3)


def test_without_room_an_experience_is_refused_before_anything_changes() -> None:
    memory = memory_of(8)
    feed(memory, 8, crystallization=0.9)
    before = snapshot(memory)
    with pytest.raises(RuntimeError, match="only 0 are not glass, crystal or pinned"):
        feed(memory, 1)
    queue = ("ledger.queue", "ledger.head", "ledger.tail")  # listed anew, in the same order
    assert_same_state(*({n: t for n, t in s.items() if n not in queue} for s in (before, memory.state_dict())))
    memory.consolidate(by_reward)
    assert len(feed(memory, 5)) == 5


@pytest.mark.parametrize("bad", [float("nan"), [1.0, 2.0, 3.0]])
def test_a_wrong_return_is_refused_before_anything_is_stored(bad: Any) -> None:
    memory = memory_of(32, n_step=3)
    feed_steps = list(stream(2, terminated=False))
    for transition in feed_steps:
        memory.add(transition)
    before = snapshot(memory)
    with pytest.raises(ValueError, match="episode_return: wanted finite numbers"):
        memory.end_episode(episode_return=bad)
    assert_same_state(before, memory.state_dict())


def test_features_must_be_vectors() -> None:
    with pytest.raises(ValueError, match="features: wanted vectors"):
        memory_of(16, features=lambda obs: obs.sum(-1))


def test_consolidating_an_empty_memory_does_nothing() -> None:
    memory = memory_of(16, CrystalParams.anchored(), anchor={"q": (2,)})
    report = memory.consolidate(lambda batch: pytest.fail("there is nothing to evaluate"))
    assert report.values["evaluated"].tolist() == [0]
    assert np.isfinite(report.scalars()["epsilon"])
    memory.check()
