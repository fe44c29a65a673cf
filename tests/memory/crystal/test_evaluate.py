"""The critic's answers are checked before anything changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation
from tests.experience import assert_same_state
from tests.memory.crystal.experience import by_reward, memory_of, snapshot, stream, with_output


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


@pytest.mark.parametrize("large", [3e38, -3e38, 1e300])
def test_outputs_and_errors_that_would_overflow_change_nothing(large: float) -> None:
    """Half of the differences between anchors of −3e38 and outputs of 3e38 are infinite in float32."""
    memory = ready()

    def outputs(batch: Batch) -> Evaluation:
        assert isinstance(batch.obs, torch.Tensor)
        return Evaluation(batch.reward, {"q": torch.full_like(batch.obs, large, dtype=torch.float64)})

    def errors(batch: Batch) -> Evaluation:
        good = with_output(batch)
        return Evaluation(torch.full_like(good.td_error, large, dtype=torch.float64), good.output)

    refused(memory, outputs, "evaluate: wanted finite q up to 1e\\+15, got")
    refused(memory, errors, "evaluate: wanted finite td_error up to 1e\\+30, got")
    assert torch.isfinite(memory.anchors["q"]).all()


def test_the_largest_outputs_keep_everything_finite() -> None:
    memory = ready()
    for sign in (1.0, -1.0, 1.0):
        memory.consolidate(
            lambda batch, sign=sign: Evaluation(batch.reward * 1e29, {"q": torch.sign(batch.obs) * sign * 1e15})
        )
        memory.check()
