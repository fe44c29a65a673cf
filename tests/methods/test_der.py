"""Dark experience replay against its explicit loss."""

import pytest
import torch

from crystalrl.losses import huber
from crystalrl.methods.der import DERParams
from tests.methods.runs import play, trainer


def explicit(made, batch, alpha: float, beta: float) -> torch.Tensor:
    """Mean over the batch of: the TD loss if new; β·TD loss + α·mean (q − recorded q)² if old. DQN."""
    agent, total = made.agent, []
    q = agent.network(agent.theta, batch.obs, batch.context)
    td = agent.td_target(batch) - q.gather(-1, batch.action[..., None]).squeeze(-1)
    for lane in range(2):
        terms = []
        for i, slot in enumerate(batch.index[lane].tolist()):
            old = int(made.method.count[lane]) - int(made.method.arrival[lane, slot]) > 48
            recorded = made.method.outputs["q"][lane, slot]
            pull = (q[lane, i] - recorded).square().mean()
            terms.append(beta * huber(td[lane, i]) + alpha * pull if old else huber(td[lane, i]))
        total.append(torch.stack(terms).mean())
    return torch.stack(total)


@pytest.mark.parametrize(("method", "beta"), [("der", 0.0), ("derpp", 0.25)])
def test_the_gradient_is_that_of_the_explicit_loss(method: str, beta: float) -> None:
    settings = {"alpha": 0.7} | ({"beta": beta} if beta else {})
    made = trainer(method, method_params=settings)
    made.begin(0)
    play(made, 40)
    drawn = made.memory.sample(32)
    loss, _ = made.agent.loss(made.method.augment(drawn), made.method)
    (gradient,) = torch.autograd.grad(loss.sum(), made.agent.theta)
    found = made.method.edit_gradients(made.agent, {"q": gradient})["q"]
    (wanted,) = torch.autograd.grad(explicit(made, drawn, 0.7, beta).sum(), made.agent.theta)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_negative_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha: wanted numbers ≥ 0, got -1"):
        DERParams(alpha=-1)
