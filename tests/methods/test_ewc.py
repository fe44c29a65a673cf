"""Elastic weight consolidation: Fisher information against per-sample gradients, the penalty against its definition."""

import itertools

import pytest
import torch

from crystalrl.agents.sac import LOG_STD
from crystalrl.methods.ewc import EWCParams, fisher_diagonal
from tests.agents.batches import batch_for, dqn, sac
from tests.methods.runs import practise, trainer


def all_signs(outputs: int, rows: int, size: int) -> list[torch.Tensor]:
    return [torch.tensor(each).expand(rows, size, outputs) for each in itertools.product((-1.0, 1.0), repeat=outputs)]


def test_the_fisher_over_all_signs_is_the_mean_squared_gradient_of_every_sample() -> None:
    agent = dqn()
    drawn = batch_for(agent)
    signs = all_signs(2, 2, 6)
    measured = torch.stack([fisher_diagonal(agent.parts["q"], drawn, sign) for sign in signs]).mean(0)
    naive = torch.zeros_like(agent.theta)
    for sample, action in itertools.product(range(6), range(2)):
        value = agent.network(agent.theta, drawn.obs[:, sample : sample + 1])[:, 0, action].sum()
        naive += torch.autograd.grad(value, agent.theta)[0].square() / 6
    torch.testing.assert_close(measured, naive, rtol=1e-4, atol=1e-7)


def test_the_fisher_of_a_gaussian_policy_is_that_of_its_log_density() -> None:
    """E[(∂ log π(a)/∂θ)²] over a ~ π, by sampling, for one state."""
    agent = sac()
    drawn = batch_for(agent)
    signs = all_signs(4, 2, 6)
    measured = torch.stack([fisher_diagonal(agent.parts["policy"], drawn, sign) for sign in signs]).mean(0)
    mean, log_std = agent.policy(drawn.obs, None).chunk(2, -1)
    assert (log_std > LOG_STD[0]).all()
    naive = torch.zeros_like(agent.theta)
    for sample, action in itertools.product(range(6), range(2)):
        by_mean, by_std = (
            torch.autograd.grad(y[:, sample, action].sum(), agent.theta, retain_graph=True)[0] for y in (mean, log_std)
        )
        scale = log_std[:, sample, action, None].detach().exp()
        naive += ((by_mean / scale).square() + 2 * by_std.square()) / 6
    torch.testing.assert_close(measured, naive, rtol=1e-3, atol=1e-6)


def test_critics_are_protected_as_well_as_the_policy_if_asked_for() -> None:
    both, one = trainer("ewc", "sac"), trainer("ewc", "sac", method_params={"critics": False, "samples": 16})
    for made in (both, one):
        practise(made, 0)
    assert set(both.method.importance) == {"policy", "q"}
    assert set(one.method.importance) == {"policy"}
    critics = both.agent.critics.detach()
    assert both.method.importance["q"].shape == critics.shape
    assert (both.method.importance["q"].sum(1) > 0).all()
    assert (both.method.penalty("q", critics + 0.1) > both.method.penalty("q", critics)).all()
    assert one.method.penalty("q", critics + 0.1) is None


def test_two_tasks_penalise_as_the_sum_of_their_own_penalties() -> None:
    made = trainer("ewc", method_params={"strength": 7.0, "samples": 16})
    fishers, centres = [], []
    for task in range(2):
        before = made.method.importance["q"].clone()
        practise(made, task)
        fishers.append(made.method.importance["q"] - before)
        centres.append(made.agent.theta.detach().clone())

    def expected(theta: torch.Tensor) -> torch.Tensor:
        return sum(0.5 * 7.0 * (f * (theta - c) ** 2).sum(-1) for f, c in zip(fishers, centres, strict=True))

    one, two = made.agent.theta.detach(), made.agent.theta.detach() + 0.05
    found = made.method.penalty("q", two) - made.method.penalty("q", one)
    torch.testing.assert_close(found, expected(two) - expected(one), rtol=1e-3, atol=1e-5)


def test_the_online_form_decays_and_centres_on_the_newest_parameters() -> None:
    made = trainer("ewc", method_params={"online": True, "decay": 0.0, "samples": 16})
    practise(made, 0)
    old = made.method.importance["q"].clone()
    practise(made, 1)
    assert not torch.equal(made.method.importance["q"], old)
    assert torch.equal(made.method.centre["q"], made.agent.theta.detach())


def test_the_fisher_of_a_head_is_that_of_its_own_samples() -> None:
    agent = trainer("ewc").agent
    drawn = batch_for(dqn(), obs=(5,), context=torch.tensor([[0, 0, 2, 2, 2, 0]] * 2))
    fisher = fisher_diagonal(agent.parts["q"], drawn, torch.ones(2, 6, 5))
    _, bias = agent.network.split(fisher)[-1]
    torch.testing.assert_close(bias[0, 0], torch.tensor([0.5] * 5 + [0.0] * 5 + [0.5] * 5))


def test_bad_settings_are_refused() -> None:
    for name, value in (("strength", -1.0), ("decay", 2.0), ("samples", 0)):
        with pytest.raises(ValueError, match=f"^{name}: wanted"):
            EWCParams(**{name: value})
