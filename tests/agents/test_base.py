"""What holds for every agent: restoring, independent lanes, evaluation without side effects, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from crystalrl.agents import DQN, Agent, DQNParams
from crystalrl.agents.base import require_tensor
from crystalrl.losses import advantages
from crystalrl.random import Streams
from tests.agents.batches import AGENTS, DISCRETE, batch, batch_for, dqn

Make = Callable[[], Agent]
every_agent = pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)


@every_agent
def test_a_restored_agent_continues_like_the_original(make: Make) -> None:
    one, two = make(), make()
    drawn = batch_for(one)
    for _ in range(3):
        one.update(drawn)
    one.act(drawn.obs, torch.tensor(0.5))
    two.load_state_dict(one.state_dict())
    for agent in (one, two):
        agent.update(drawn)
        agent.act(drawn.obs, torch.tensor(0.5))
        agent.update(drawn)
    for key, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[key]), key


def test_a_state_with_other_shapes_or_names_is_refused() -> None:
    state = dqn().state_dict()
    with pytest.raises(ValueError, match=r"^state theta: wanted"):
        DQN(DISCRETE, DQNParams(width=8), Streams([1])).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state: wanted"):
        dqn().load_state_dict({name: tensor for name, tensor in state.items() if name != "theta"})


@every_agent
def test_one_lane_with_a_huge_error_does_not_disturb_the_other(make: Make) -> None:
    calm, wild = make(), make()
    calm.update(batch_for(calm, reward=torch.zeros(2, 6)))
    wild.update(batch_for(wild, reward=torch.cat([torch.zeros(1, 6), torch.full((1, 6), 1e4)])))
    for key in ("theta", "critics"):
        if key in calm.state_dict():
            rows = [agent.state_dict()[key].unflatten(0, (2, -1))[0] for agent in (calm, wild)]
            assert torch.equal(*rows)


@every_agent
def test_evaluating_changes_nothing_and_gives_the_same_again(make: Make) -> None:
    agent = make()
    drawn, before = batch_for(agent), agent.state_dict()
    one, two = agent.evaluate(drawn), agent.evaluate(drawn)
    assert torch.equal(one.td_error, two.td_error)
    assert all(torch.equal(before[name], tensor) for name, tensor in agent.state_dict().items())
    assert {key: output.shape[2:] for key, output in one.output.items()} == agent.anchors


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^learning_rate: wanted numbers > 0, got \(0.1, 0.0\)"):
        DQNParams(learning_rate=(0.1, 0.0))
    with pytest.raises(ValueError, match=r"^schedule: wanted one of constant, cosine, step, robbins-monro, got linear"):
        DQNParams(schedule="linear")


def test_dict_observations_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^obs: wanted a tensor, got a dict with keys \['a'\]"):
        require_tensor({"a": torch.zeros(1)})


@pytest.mark.parametrize("kind", list(AGENTS))
def test_every_agent_can_copy_its_target_network_every_few_updates(kind: str) -> None:
    """Algorithm 3: φ⁻ ← φ every F_target updates; TD3 counts those of the policy, here every update."""
    agent = AGENTS[kind](target_every=3, target_rate=1.0, **({"delay": 1} if kind == "td3" else {}))
    names = ("critics_target", "theta_target") if kind == "td3" else ("target",)
    online = {"target": "theta" if kind in ("dqn", "rainbow") else "critics", "critics_target": "critics"}
    for update in range(1, 7):
        before = {name: getattr(agent, name).clone() for name in names}
        agent.update(batch_for(agent))
        for name in names:
            copied = torch.equal(getattr(agent, name), getattr(agent, online.get(name, "theta")).detach())
            assert copied == (update % 3 == 0)
            assert copied or torch.equal(getattr(agent, name), before[name])


@pytest.mark.parametrize("kind", list(AGENTS))
def test_errors_of_the_online_network_do_not_see_the_target_network(kind: str) -> None:
    """eq. td: r + γ max Q_θ(s′, a′) − Q_θ(s, a), one network in both places; the loss keeps its target network."""
    found = {}
    for errors in ("target", "online"):
        agent = AGENTS[kind](errors=errors)
        drawn = batch_for(agent)
        before = agent.evaluate(drawn).td_error
        with torch.no_grad():
            for name in ("target", "critics_target", "theta_target"):
                if hasattr(agent, name):
                    getattr(agent, name).mul_(1.5)
        found[errors] = torch.equal(agent.evaluate(drawn).td_error, before)
    assert found == {"target": False, "online": True}


def test_the_online_error_of_values_is_that_of_the_paper() -> None:
    agent, drawn = dqn(errors="online"), batch(discrete=True)
    with torch.no_grad():
        q, after = (agent.network(agent.theta, x) for x in (drawn.obs, drawn.next_obs))
    taken = q.gather(-1, drawn.action[..., None])[..., 0]
    wanted = drawn.reward + drawn.discount * after.max(-1).values - taken
    torch.testing.assert_close(agent.evaluate(drawn).td_error, wanted)


@every_agent
def test_outputs_are_those_of_evaluate_and_have_gradients(make) -> None:
    agent = make()
    drawn = batch_for(agent)
    outputs, evaluated = agent.outputs(drawn), agent.evaluate(drawn).output
    assert set(outputs) == set(agent.parts)
    anchored = {**outputs, "advantage": advantages(outputs["q"])}
    for name in agent.anchors:
        torch.testing.assert_close(anchored[name], evaluated[name])
    for name, output in outputs.items():
        (gradient,) = torch.autograd.grad(output.sum(), agent.parts[name].theta)
        assert gradient.any()


@every_agent
def test_the_parts_read_what_the_networks_read(make) -> None:
    """The inputs of the Q network give its outputs: DQN's values, or those of the twins, row by row."""
    agent = make()
    drawn, part = batch_for(agent), agent.parts["q"]
    out = part.network(part.theta, *part.inputs(drawn))
    rows = len(part.theta) // 2
    assert out.shape[:2] == (2 * rows, 6)
    if rows == 2:
        q = agent.outputs(drawn)["q"]
        torch.testing.assert_close(out.squeeze(-1).view(2, 2, 6).transpose(1, 2), q)


class Still:
    """Allows no step of the networks."""

    def penalty(self, part: str, theta: torch.Tensor) -> None:
        return None

    def edit_gradients(self, agent, gradients):
        self.seen = getattr(self, "seen", set()) | set(gradients)
        return {name: torch.zeros_like(gradient) for name, gradient in gradients.items()}


@every_agent
def test_a_method_may_edit_the_gradients_of_every_part(make) -> None:
    agent, method = make(), Still()
    before = {name: part.theta.detach().clone() for name, part in agent.parts.items()}
    for _ in range(4):
        agent.update(batch_for(agent), method)
    assert method.seen == set(agent.parts)
    assert all(torch.equal(part.theta, before[name]) for name, part in agent.parts.items())


@every_agent
def test_gradients_are_those_that_an_update_follows(make) -> None:
    agent, other = make(), make()
    drawn, seen = batch_for(agent), {}

    class Notes(Still):
        def edit_gradients(self, agent, gradients):
            seen.update({name: gradient.clone() for name, gradient in gradients.items()})
            return super().edit_gradients(agent, gradients)

    first = list(agent.parts) if "policy" not in agent.parts or "alpha" in agent.optimisers else ["q"]
    gradients = other.gradients(drawn, first)  # TD3 updates its policy after its critics
    agent.update(drawn, Notes())
    for name, gradient in gradients.items():
        torch.testing.assert_close(seen[name], gradient)
