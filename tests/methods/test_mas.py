"""Memory-aware synapses: importances against a naive twin."""

import pytest
import torch

from crystalrl.methods.mas import MASParams
from tests.methods.runs import practise, trainer


@pytest.mark.parametrize("agent", ["dqn", "sac"])
def test_importances_are_mean_absolute_gradients_of_the_squared_norm(agent: str) -> None:
    made = trainer("mas", agent, method_params={"critics": True, "samples": 16})
    practise(made, 0)
    made.begin(1)
    drawn = made.memory.sample(16)
    before = {name: importance.clone() for name, importance in made.method.importance.items()}

    class Same:
        """Draws that batch again."""

        capacity = made.memory.capacity

        def sample(self, size: int) -> object:
            assert size == 16
            return drawn

    made.method.task_end(made.agent, Same(), 1)
    for name, part in made.agent.parts.items():
        inputs, context = part.inputs(drawn)
        naive = torch.zeros_like(part.theta)
        for sample in range(16):
            one = slice(sample, sample + 1)
            norm = part.network(part.theta, inputs[:, one], context[:, one]).square().sum()
            naive += torch.autograd.grad(norm, part.theta)[0].abs() / 16
        torch.testing.assert_close(made.method.importance[name] - before[name], naive, rtol=1e-2, atol=1e-4)


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="samples: wanted a whole number ≥ 1, got 0"):
        MASParams(samples=0)
