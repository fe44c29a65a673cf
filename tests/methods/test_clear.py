"""CLEAR: policy and values of replayed experiences are cloned, new ones are not."""

import pytest
import torch

from crystalrl.losses import gaussian_kl
from crystalrl.methods.clear import CLEARParams
from tests.methods.runs import play, trainer


def test_replayed_experiences_are_cloned_with_the_published_costs() -> None:
    made = trainer("clear", "sac")
    made.begin(0)
    play(made, 40)
    drawn = made.memory.sample(32)
    augmented, old = made.method.augment(drawn), torch.arange(32) >= 16
    assert torch.equal(augmented.weight, drawn.weight)
    for key, cost in (("policy", 0.01), ("q", 0.005)):
        torch.testing.assert_close(augmented.anchor[key].coefficient, (cost * old).expand(2, -1))


def test_the_anchor_loss_is_the_explicit_cloning_loss() -> None:
    made = trainer("clear", "sac", method_params={"policy": 0.5, "value": 0.25})
    made.begin(0)
    play(made, 40)
    drawn = made.memory.sample(32)
    ticks = made.agent.streams.ticks.clone()
    with_it = made.agent.loss(made.method.augment(drawn))[0]
    made.agent.streams.ticks.copy_(ticks)
    without = made.agent.loss(drawn)[0]
    outputs, method = made.agent.outputs(drawn), made.method
    wanted = []
    for lane in range(2):
        total = torch.zeros(())
        for i in range(16, 32):
            slot = int(drawn.index[lane, i])
            mean, log_std = outputs["policy"][lane, i].chunk(2)
            kl = gaussian_kl(mean[None], log_std[None], method.outputs["policy"][lane, slot][None])[0]
            squared = (outputs["q"][lane, i] - method.outputs["q"][lane, slot]).square().sum()
            total = total + 0.5 * kl + 0.25 * squared
        wanted.append(total / 32)
    torch.testing.assert_close(with_it - without, torch.stack(wanted), rtol=1e-3, atol=1e-5)


def test_a_negative_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="value: wanted numbers ≥ 0, got -1"):
        CLEARParams(value=-1)
