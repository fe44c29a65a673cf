"""A consolidation planned during learning is the one planned at that step and applied at the later one."""

from __future__ import annotations

import time

import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation
from crystalrl.memory.crystal.background import Background
from crystalrl.types import Evaluate
from tests.experience import assert_same_state
from tests.memory.crystal.experience import WithLists, memory_of, stream, with_output

PARAMS = CrystalParams.anchored(time_unit=40, alpha=0.4)


def lived(
    background: bool, slow: float = 0.0, lag: int = 13, kind: type[CrystalMemory] = CrystalMemory
) -> CrystalMemory:
    """A life with consolidations in the background, or with plans made and applied by hand at the same steps."""
    memory = memory_of(200, PARAMS, kind, anchor={"q": (2,)})

    def critic() -> Evaluate:
        def evaluate(batch: Batch) -> Evaluation:
            time.sleep(slow)
            return with_output(batch)

        return evaluate

    helper = Background(memory, critic, lag)
    plan, since = None, 0
    for number, transition in enumerate(stream(600)):
        memory.add(transition)
        if number > 5:
            batch = memory.sample(8)
            memory.update(batch, batch.reward)
        if background:
            helper.step()
        elif plan is None and memory.due:
            plan, since = memory.plan(with_output), number
        elif plan is not None and number - since == lag:
            memory.apply(plan)
            plan = None
    if background:
        helper.finish()
    elif plan is not None:
        memory.apply(plan)
    memory.check()
    return memory


@pytest.mark.parametrize("lists", [False, True])
def test_it_is_the_plan_of_one_step_applied_at_another_however_long_it_takes(
    lists: bool,
) -> None:
    if lists:
        pytest.importorskip("faiss")
    kind = WithLists if lists else CrystalMemory
    by_hand = lived(False, kind=kind)
    assert (by_hand.neighbours.graph is not None) == lists
    assert int(by_hand.consolidations) > 8
    for slow in (0.0, 0.02):
        assert_same_state(by_hand.state_dict(), lived(True, slow, kind=kind).state_dict())


def test_a_critic_that_fails_says_so_when_its_plan_is_wanted_and_changes_nothing() -> None:
    memory = memory_of(200, PARAMS, anchor={"q": (2,)})
    helper = Background(memory, lambda: lambda batch: torch.full_like(batch.reward, torch.nan), 5)
    for transition in stream(40):
        memory.add(transition)
        helper.step()
    with pytest.raises(ValueError, match="output"):
        helper.finish()
    assert int(memory.consolidations) == 0
    memory.check()


def test_a_lag_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="lag"):
        Background(memory_of(64), lambda: with_output, 0)
