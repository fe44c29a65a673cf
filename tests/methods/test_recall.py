"""RECALL: normalised targets, and the policy of completed tasks cloned."""

from dataclasses import replace

import pytest
import torch

from crystalrl.methods import ClonEx
from tests.methods.runs import play, practise, trainer


def test_the_policy_of_completed_tasks_is_cloned_and_not_the_critics() -> None:
    made = trainer("recall", "sac")
    practise(made, 0)
    assert isinstance(made.method, ClonEx)
    batch = made.method.archive.sample(8)
    anchors = made.method.anchors(batch)
    torch.testing.assert_close(anchors["policy"].coefficient, torch.full((2, 8), 10.0 / 2))  # a mean over dimensions
    assert not anchors["q"].coefficient.any()
    torch.testing.assert_close(anchors["policy"].target, made.agent.outputs(batch)["policy"].detach())


@pytest.mark.parametrize("agent", ["dqn", "sac", "td3"])
def test_errors_do_not_grow_with_the_rewards_of_a_task(agent: str) -> None:
    """Two tasks, the rewards of one 1000 times as large: after normalisation their errors have the same size."""
    settings = {"width": 12, "multi_head": True, "gamma": 0.5, "pop_art": True}
    made = trainer("recall", agent, memory="uniform", agent_params=settings)
    practise(made, 0, steps=12)
    made.begin(1)
    play(made, 12, idle=12)
    drawn = made.memory.sample(96)
    noise = torch.randn(2, 96, generator=torch.Generator().manual_seed(0))
    batch = replace(drawn, reward=noise * torch.where(drawn.context == 1, 1000.0, 1.0))
    for _ in range(20):
        error = made.agent.update(batch, made.method).td_error
    sizes = [error[drawn.context == task].abs().mean() for task in (0, 1)]
    assert 0.3 < float(sizes[1] / sizes[0]) < 3


def test_other_agents_and_values_that_are_not_normalised_are_refused() -> None:
    with pytest.raises(ValueError, match="method recall: wanted dqn, sac or td3, got Rainbow"):
        trainer("recall", "rainbow", agent_params={"width": 12, "multi_head": True})
    with pytest.raises(ValueError, match="method recall: wanted pop_art = true, got false"):
        trainer("recall", agent_params={"width": 12, "multi_head": True})
    with pytest.raises(ValueError, match="method recall: wanted explore = 0, because there is one head, got 24"):
        trainer("recall", "sac", agent_params={"width": 12, "pop_art": True})
