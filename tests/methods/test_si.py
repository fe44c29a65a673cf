"""Synaptic intelligence: importances against a naive twin that stores the whole path."""

import itertools

import pytest
import torch

from crystalrl.methods.si import SI, SIParams
from tests.methods.runs import practise, setup_of, trainer


class Path(SI):
    """Writes down gradients and parameters."""

    def edit_gradients(self, agent, gradients):
        for name, gradient in gradients.items():
            self.written[name].append((gradient.clone(), agent.parts[name].theta.detach().clone()))
        return super().edit_gradients(agent, gradients)


@pytest.mark.parametrize("agent", ["dqn", "sac", "td3"])
def test_importances_are_those_of_the_whole_path(agent: str) -> None:
    made = trainer("none", agent)
    made.method = Path(setup_of(made), SIParams(critics=True, strength=5.0))
    total = {name: torch.zeros_like(part.theta) for name, part in made.agent.parts.items()}
    for task in range(2):
        made.method.written = {name: [] for name in made.agent.parts}
        centres = {name: centre.clone() for name, centre in made.method.centre.items()}
        practise(made, task)
        for name, part in made.agent.parts.items():
            path = [*made.method.written[name], (None, part.theta.detach())]
            omega = torch.zeros_like(part.theta)
            for (gradient, theta), (_, after) in itertools.pairwise(path):
                pull = 2 * 5.0 * total[name] * (theta - centres[name])
                omega -= (gradient - pull) * (after - theta)
            gained = omega / ((part.theta - centres[name]).square() + 0.1)
            total[name] = (total[name] + gained).clamp_min(0)
            assert total[name].any()
            torch.testing.assert_close(made.method.importance[name], total[name].detach(), rtol=1e-3, atol=1e-6)


def test_a_parameter_that_never_moved_does_not_matter() -> None:
    made = trainer("si")
    practise(made, 0)
    network = made.agent.network
    assert not made.method.importance["q"][:, network.used :].any()


def test_no_damping_is_refused() -> None:
    with pytest.raises(ValueError, match="damping: wanted a number > 0, got 0"):
        SIParams(damping=0.0)
