"""CLEAR: policy and values of replayed experiences are cloned, new ones are not."""

import pytest
import torch

from crystalrl.losses import gaussian_divergence
from crystalrl.methods.clear import CLEARParams
from tests.methods.runs import play, trainer


def test_replayed_experiences_are_cloned_with_the_published_costs() -> None:
    made = trainer("clear", "sac")
    made.begin(0)
    play(made, 40)
    drawn = made.memory.sample(32)
    assert made.method.augment(drawn) is drawn
    (batch, anchors), old = made.method.pull, torch.arange(32) >= 16
    assert batch is drawn
    for key, cost in (("policy", 0.01), ("q", 0.005)):
        torch.testing.assert_close(anchors[key].coefficient, (cost * old).expand(2, -1))


def test_the_added_gradient_is_that_of_the_explicit_cloning_loss() -> None:
    made = trainer("clear", "sac", method_params={"policy": 0.5, "value": 0.25})
    made.begin(0)
    play(made, 40)
    drawn = made.memory.sample(32)
    made.method.augment(drawn)
    thetas = {name: part.theta for name, part in made.agent.parts.items()}
    nothing = {name: torch.zeros_like(theta) for name, theta in thetas.items()}
    found = made.method.edit_gradients(made.agent, nothing)
    outputs, method, total = made.agent.outputs(drawn), made.method, torch.zeros(())
    for lane in range(2):
        for i in range(16, 32):
            slot = int(drawn.index[lane, i])
            policy, q = (method.outputs[key][lane, slot] for key in ("policy", "q"))
            kl = gaussian_divergence(outputs["policy"][lane, i][None], policy[None])[0]
            total = total + (0.5 * kl + 0.25 * (outputs["q"][lane, i] - q).square().sum()) / 32
    for name, wanted in zip(thetas, torch.autograd.grad(total, list(thetas.values())), strict=True):
        torch.testing.assert_close(found[name], wanted, rtol=1e-3, atol=1e-6)


def test_a_negative_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="value: wanted numbers ≥ 0, got -1"):
        CLEARParams(value=-1)
