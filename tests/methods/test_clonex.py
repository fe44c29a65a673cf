"""ClonEx: the cloning loss against its definition, and exploration with the heads of earlier tasks."""

import pytest
import torch

from crystalrl.losses import anchor_losses, gaussian_divergence
from crystalrl.methods.clonex import ClonExParams
from tests.methods.runs import ALL_AGENTS, play, practise, trainer

SMALL = {"size": 24, "batch": 8, "explore": 24}


def cloning_loss(made, batch, names: list[str]) -> torch.Tensor:
    anchors = made.method.anchors(batch)
    return anchor_losses(made.agent.outputs(batch), {name: anchors[name] for name in names}, made.agent.distances)


def test_the_cloning_loss_is_the_divergence_from_the_policy_at_the_end_of_the_task() -> None:
    made = trainer("clonex", "sac", method_params={**SMALL, "policy": 3.0, "critic": 2.0})
    practise(made, 0)
    batch = made.method.archive.sample(8)
    loss = cloning_loss(made, batch, ["policy", "q"])
    torch.testing.assert_close(loss, torch.zeros(2), rtol=0, atol=1e-5)
    old = {key: output.detach().clone() for key, output in made.agent.outputs(batch).items()}
    made.begin(1)
    play(made, 10)
    new = made.agent.outputs(batch)
    policy = gaussian_divergence(new["policy"], old["policy"]).mean(-1)
    wanted = 3.0 * policy + 2.0 * (new["q"] - old["q"]).square().sum(-1).mean(-1)
    loss = cloning_loss(made, batch, ["policy", "q"])
    torch.testing.assert_close(loss, wanted, rtol=1e-3, atol=1e-5)


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


def test_a_task_starts_with_the_heads_of_earlier_tasks() -> None:
    made = trainer("clonex", "td3", agent_params={"width": 12, "multi_head": True, "noise": 0.0})
    practise(made, 0)
    practise(made, 1)
    made.begin(2)
    obs, context = made.world.obs, made.world.context
    heads = torch.tensor([[0, 1, 0, 1]] * 2, dtype=torch.int32)
    acted = made.method.act(made.agent, obs, torch.ones(1), context)
    torch.testing.assert_close(acted, made.agent.greedy(obs, heads))
    made.method.clock.fill_(24)
    acted = made.method.act(made.agent, obs, torch.zeros(1), context)
    torch.testing.assert_close(acted, made.agent.greedy(obs, context))


def test_after_half_of_the_time_the_head_with_the_best_reward_explores() -> None:
    made = trainer("clonex", "td3", agent_params={"width": 12, "multi_head": True, "noise": 0.0})
    practise(made, 0)
    practise(made, 1)
    made.begin(2)
    made.method.total.copy_(torch.tensor([[1.0, 3.0, 0.0], [2.0, 1.0, 0.0]]))
    made.method.steps.copy_(torch.tensor([[4, 4, 0], [4, 4, 0]]))
    made.method.clock.fill_(12)
    made.method.act(made.agent, made.world.obs, torch.zeros(1), made.world.context)
    assert made.method.choice.tolist() == [[1] * 4, [0] * 4]


def test_rewards_are_credited_to_the_head_that_acted() -> None:
    made = trainer("clonex", memory="uniform")
    practise(made, 0)
    practise(made, 1)
    made.begin(2)
    made.collect()
    reward = made.transition.reward
    torch.testing.assert_close(made.method.total[:, 0], reward[:, 0] + reward[:, 2])
    torch.testing.assert_close(made.method.total[:, 1], reward[:, 1] + reward[:, 3])
    assert made.method.steps.tolist() == [[2, 2, 0]] * 2
    assert int(made.method.clock) == 4


def test_the_first_task_is_learnt_as_without_it() -> None:
    with_it, without = trainer("clonex", method_params={**SMALL, "explore": 0}), trainer("none")
    for made in (with_it, without):
        practise(made, 0)
    assert torch.equal(with_it.agent.theta, without.agent.theta)


def test_exploration_with_one_head_is_refused() -> None:
    with pytest.raises(ValueError, match="method clonex: wanted explore = 0, because there is one head, got 24"):
        trainer("clonex", agent_params={"width": 12})


@pytest.mark.parametrize(("name", "value"), [("policy", -1.0), ("batch", 0), ("explore", -1)])
def test_bad_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        ClonExParams(**{name: value})
