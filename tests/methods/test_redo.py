"""ReDo: which units are dormant, what recycling changes, and that it restores a dead network."""

import pytest
import torch

from crystalrl.methods.redo import ReDo, ReDoParams, scores
from tests.agents.batches import batch_for, dqn
from tests.methods.runs import ALL_AGENTS, play, setup_of, trainer


def attached(agent: str = "dqn", **params: object):
    made = trainer("none", agent)
    made.begin(0)
    play(made, 6)
    made.method = ReDo(setup_of(made), ReDoParams(**{"every": 1, **params}))
    return made


def kill(part, layer: int, unit: int) -> None:
    """Make a unit inactive, in all rows."""
    with torch.no_grad():
        weight, bias = part.network.split(part.theta)[layer]
        weight[..., unit] = 0.0
        bias[..., unit] = -1.0


def test_a_score_is_the_mean_activation_relative_to_its_layer() -> None:
    agent = dqn()
    drawn, (first, *_) = batch_for(agent), agent.network.split(agent.theta)
    hidden = torch.relu(drawn.obs @ first[0] + first[1]).mean(1)
    found = scores(agent.parts["q"], drawn)
    assert len(found) == agent.network.depth
    torch.testing.assert_close(found[0], hidden / hidden.mean(-1, keepdim=True))


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_a_dormant_unit_gets_new_incoming_and_no_outgoing_weights_and_no_momentum(agent: str) -> None:
    made = attached(agent, threshold=0.0)
    part = made.agent.parts["q"]
    kill(part, 0, 3)
    before = part.theta.detach().clone()
    dormant = [score <= 0 for score in scores(part, made.memory.sample(16))]
    made.method.augment(made.memory.sample(16))
    layers, old = part.network.split(part.theta.detach()), part.network.split(before)
    assert (layers[0][0][..., 3] != 0).any()
    assert not layers[1][0][:, 3].any()
    assert not part.network.split(part.optimiser.first)[1][0][:, 3].any()
    assert not part.network.split(part.optimiser.second)[0][0][..., 3].any()
    awake = ~(dormant[0].any(0))
    assert torch.equal(layers[0][0][..., awake], old[0][0][..., awake])


def test_it_recycles_only_when_it_is_due() -> None:
    made = attached(every=3)
    kill(made.agent.parts["q"], 0, 3)
    before = made.agent.theta.detach().clone()
    for call in range(1, 4):
        made.method.augment(made.memory.sample(16))
        assert torch.equal(made.agent.theta, before) == (call < 3)


def test_the_channels_of_a_convolution_are_units() -> None:
    made = trainer("redo", suite="minatar-breakout", steps=64, memory="uniform", agent_params={"width": 8, "depth": 1})
    made.begin(0)
    play(made, 8)
    part = made.agent.parts["q"]
    kill(part, 0, 2)
    made.method.updates.fill_(2)
    made.method.augment(made.memory.sample(16))
    after = part.network.split(part.theta.detach())[1][0].unflatten(1, (-1, 16))
    assert not after[:, :, 2].any()
    assert after[:, :, 3].any()


def test_a_network_whose_units_are_all_dormant_learns_again() -> None:
    made = attached(every=5)
    for unit in range(12):
        kill(made.agent.parts["q"], 0, unit)
    play(made, 30, idle=0)
    assert (scores(made.agent.parts["q"], made.memory.sample(64))[0] > 0.025).float().mean() > 0.5


@pytest.mark.parametrize(("name", "value"), [("threshold", -1.0), ("every", 0)])
def test_bad_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        ReDoParams(**{name: value})
