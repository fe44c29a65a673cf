"""Cloning of completed tasks: the loss against its definition."""

import pytest
import torch

from crystalrl.losses import anchor_losses, gaussian_divergence
from crystalrl.methods.cloning import CloningParams, cloning_distances
from tests.methods.runs import ALL_AGENTS, play, practise, trainer

SMALL = {"size": 24, "batch": 8, "explore": 0}


def cloning_loss(made, batch, names: list[str]) -> torch.Tensor:
    anchors = made.method.anchors(batch)
    chosen = {name: anchors[name] for name in names}
    return anchor_losses(made.agent.outputs(batch), chosen, cloning_distances(made.agent))


def test_the_loss_is_the_mean_divergence_from_the_policy_at_the_end_of_the_task() -> None:
    made = trainer("clonex", "sac", method_params={**SMALL, "policy": 3.0, "critic": 2.0})
    practise(made, 0)
    batch = made.method.archive.sample(8)
    loss = cloning_loss(made, batch, ["policy", "q"])
    torch.testing.assert_close(loss, torch.zeros(2), rtol=0, atol=1e-5)
    old = {key: output.detach().clone() for key, output in made.agent.outputs(batch).items()}
    made.begin(1)
    play(made, 10)
    new = made.agent.outputs(batch)
    policy = gaussian_divergence(old["policy"], new["policy"]).mean(-1) / 2  # dimensions
    wanted = 3.0 * policy + 2.0 * (new["q"] - old["q"]).square().sum(-1).mean(-1)
    loss = cloning_loss(made, batch, ["policy", "q"])
    torch.testing.assert_close(loss, wanted, rtol=1e-3, atol=1e-5)


def test_without_a_policy_the_values_are_cloned_as_a_mean_over_actions() -> None:
    made = trainer("clonex", method_params={**SMALL, "policy": 3.0})
    practise(made, 0)
    batch = made.method.archive.sample(8)
    old = made.agent.outputs(batch)["q"].detach().clone()
    made.begin(1)
    play(made, 10)
    wanted = 3.0 * (made.agent.outputs(batch)["q"] - old).square().mean((-1, -2))
    torch.testing.assert_close(cloning_loss(made, batch, ["q"]), wanted)


def test_normalised_values_are_compared_in_the_unit_of_their_task() -> None:
    """Once statistics move, Q of old tasks stays the same: nothing pulls, whatever the unit."""
    settings = {"width": 12, "multi_head": True, "pop_art": True}
    made = trainer("clonex", method_params=SMALL, agent_params=settings)
    practise(made, 0)
    agent, batch = made.agent, made.method.archive.sample(8)
    targets = 50.0 * torch.ones(2, 8)
    agent.scale.observe(targets, batch.context, agent.network, (agent.theta, agent.target))
    nothing = {"q": torch.zeros_like(agent.theta)}
    assert float(made.method.edit_gradients(agent, nothing)["q"].abs().max()) < 1e-2
    ticks = made.method.archive.streams.ticks.clone()
    with torch.no_grad():
        agent.theta.mul_(1.1)
    found = made.method.edit_gradients(agent, nothing)["q"]
    made.method.archive.streams.ticks.copy_(ticks)
    batch = made.method.archive.sample(8)
    unit = agent.scale.unit(batch.index, batch.context)[..., None]
    target = made.method.anchors(batch)["q"].target
    loss = 100.0 * ((agent.outputs(batch)["q"] - target) / unit).square().mean((-1, -2))
    (wanted,) = torch.autograd.grad(loss.sum(), agent.theta)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_the_gradient_of_the_cloning_loss_is_added(agent: str) -> None:
    made = trainer("clonex", agent, method_params={**SMALL, "critic": 1.0})
    practise(made, 0)
    with torch.no_grad():
        for part in made.agent.parts.values():
            part.theta.mul_(1.1)
    for names in [[name] for name in made.agent.parts]:
        nothing = {name: torch.zeros_like(made.agent.parts[name].theta) for name in names}
        ticks = made.method.archive.streams.ticks.clone()
        edited = made.method.edit_gradients(made.agent, nothing)
        made.method.archive.streams.ticks.copy_(ticks)
        loss = cloning_loss(made, made.method.archive.sample(8), names)
        wanted = torch.autograd.grad(loss.sum(), [made.agent.parts[name].theta for name in names])
        for name, gradient in zip(names, wanted, strict=True):
            assert gradient.any()
            assert torch.equal(edited[name], gradient)


def test_the_first_task_is_learnt_as_without_it() -> None:
    with_it, without = trainer("clonex", method_params={**SMALL, "explore": 0}), trainer("none")
    for made in (with_it, without):
        practise(made, 0)
    assert torch.equal(with_it.agent.theta, without.agent.theta)


@pytest.mark.parametrize(("name", "value"), [("policy", -1.0), ("critic", -1.0), ("batch", 0)])
def test_bad_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        CloningParams(**{name: value})
