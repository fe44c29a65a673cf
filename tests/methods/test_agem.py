"""A-GEM: no step against the gradient of earlier tasks."""

import pytest
import torch

from crystalrl.methods.agem import AGEMParams, lane_dot
from crystalrl.study.run import Trainer
from tests.methods.runs import ALL_AGENTS, practise, trainer


def coming_reference(made: Trainer) -> dict[str, torch.Tensor]:
    """The gradients on earlier tasks that the next call will use."""
    streams = (made.agent.streams, made.method.archive.streams)
    ticks = [each.ticks.clone() for each in streams]
    batch = made.method.archive.sample(made.method.params.batch)
    reference = made.agent.gradients(batch, list(made.agent.parts))
    for each, tick in zip(streams, ticks, strict=True):
        each.ticks.copy_(tick)
    return reference


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_the_projected_gradient_never_has_a_negative_dot_product(agent: str) -> None:
    made = trainer("agem", agent)
    practise(made, 0)
    random = torch.Generator().manual_seed(0)
    conflicts = 0
    for _ in range(20):
        reference = coming_reference(made)
        mine = {name: torch.randn(g.shape, generator=random) * g.abs() for name, g in reference.items()}
        dot = lane_dot(mine, reference, 2)
        edited = made.method.edit_gradients(made.agent, dict(mine))
        after = lane_dot(edited, reference, 2)
        scale = lane_dot(reference, reference, 2)
        assert (after >= -1e-4 * scale).all()
        for lane in range(2):
            rows = {name: slice(lane * len(g) // 2, (lane + 1) * len(g) // 2) for name, g in mine.items()}
            same = all(torch.equal(edited[name][at], mine[name][at]) for name, at in rows.items())
            assert same == bool(dot[lane] >= 0)
        conflicts += int((dot < 0).sum())
    assert conflicts > 5


def test_the_first_task_is_learnt_as_without_it() -> None:
    with_it, without = trainer("agem"), trainer("none")
    for made in (with_it, without):
        practise(made, 0)
    assert torch.equal(with_it.agent.theta, without.agent.theta)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="batch: wanted a whole number ≥ 1, got 0"):
        AGEMParams(batch=0)
