"""Pop-Art: values survive a change of scale, and normalised batches give normalised targets."""

import pytest
import torch

from crystalrl.methods.popart import PopArt
from tests.methods.runs import play, trainer


def values(made, popart: PopArt, batch) -> torch.Tensor:
    """σ·q + μ, [L, B, outputs or twins]."""
    task = batch.context.to(torch.int64)
    q = made.agent.outputs(batch)["q"].detach()
    return q * popart.scale.gather(1, task)[..., None] + popart.mean.gather(1, task)[..., None]


@pytest.mark.parametrize("agent", ["dqn", "sac", "td3"])
def test_values_are_preserved_when_the_scale_changes(agent: str) -> None:
    made = trainer("none", agent)
    made.begin(0)
    play(made, 10)
    popart, batch = PopArt(made.agent.parts["q"], 2, rate=0.5), made.memory.sample(16)
    before = values(made, popart, batch)
    popart.update(torch.full((2, 16), 30.0), batch.context.to(torch.int64))
    popart.update(torch.linspace(-5, 5, 16).expand(2, -1), batch.context.to(torch.int64))
    assert float(popart.scale[0, 0]) > 5
    torch.testing.assert_close(values(made, popart, batch), before, rtol=1e-3, atol=1e-3)


def test_moments_follow_the_targets_of_each_task_and_of_no_other() -> None:
    made = trainer("none")
    popart = PopArt(made.agent.parts["q"], 2, rate=1.0)
    task = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]])
    popart.update(torch.tensor([[1.0, 3.0, 10.0, 10.0], [2.0, 2.0, 4.0, 4.0]]), task)
    torch.testing.assert_close(popart.mean, torch.tensor([[2.0, 10.0, 0.0], [3.0, 0.0, 0.0]]))
    torch.testing.assert_close(popart.scale[:, 0], torch.tensor([1.0, 1.0]))
    assert float(popart.scale[0, 1]) == pytest.approx(1e-4)


def test_the_moments_of_a_held_task_stay() -> None:
    made = trainer("none")
    popart = PopArt(made.agent.parts["q"], 2, rate=1.0)
    popart.held[0, 0] = 1.0
    popart.update(torch.full((2, 4), 7.0), torch.zeros(2, 4, dtype=torch.int64))
    assert popart.mean[:, 0].tolist() == [0.0, 7.0]


def test_the_target_of_a_normalised_batch_is_the_normalised_target() -> None:
    """(r + discount·(σ·q′ + μ) − μ) / σ, for a task with another scale."""
    made = trainer("none")
    made.begin(0)
    play(made, 10)
    popart, batch = PopArt(made.agent.parts["q"], 2, rate=1.0), made.memory.sample(16)
    popart.update(torch.linspace(-5, 9, 16).expand(2, -1), batch.context.to(torch.int64))
    mean, scale = popart.mean[:, :1], popart.scale[:, :1]
    future = (made.agent.td_target(batch) - batch.reward) / batch.discount.clamp_min(1e-9)
    wanted = (batch.reward + batch.discount * (scale * future + mean) - mean) / scale
    torch.testing.assert_close(made.agent.td_target(popart.normalised(batch)), wanted, rtol=1e-3, atol=1e-3)
