"""The parts of a run: of the kind that the spec names, and with sizes and discounts that fit each other."""

import pytest
import torch

from crystalrl.agents import DQN, SAC, TD3, Rainbow
from crystalrl.memory import CrystalMemory, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory.base import ReplayMemory
from crystalrl.methods import EWC, Distill, Method
from crystalrl.random import Streams
from crystalrl.study.build import make_agent, make_memory, make_method, make_suite
from crystalrl.study.spec import RunSpec
from crystalrl.suites.drift import Drift
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.nav import Nav
from crystalrl.types import Transition

CPU = torch.device("cpu")


def built(spec: RunSpec, **agent_params: object) -> tuple[object, object, ReplayMemory]:
    suite = make_suite(spec, [3, 5], CPU)
    agent = make_agent(spec, suite, Streams([3, 5]), {"width": 16, **agent_params})
    return suite, agent, make_memory(spec, suite, agent, {})


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"suite": "nav-2"}, (Nav, DQN, UniformMemory)),
        ({"suite": "nav-2-hidden", "memory": "reservoir"}, (Nav, DQN, ReservoirMemory)),
        ({"suite": "reach-2-redefined", "agent": "sac", "memory": "crystal"}, (Nav, SAC, CrystalMemory)),
        ({"suite": "reach-2-hidden", "agent": "td3", "memory": "reservoir"}, (Nav, TD3, ReservoirMemory)),
        ({"suite": "drift-2", "memory": "crystal"}, (Drift, DQN, CrystalMemory)),
        ({"suite": "pendulum-2", "agent": "sac", "memory": "prioritized"}, (GymSuite, SAC, PrioritizedMemory)),
        ({"suite": "minatar-breakout", "agent": "rainbow", "memory": "crystal"}, (GymSuite, Rainbow, CrystalMemory)),
    ],
)
def test_the_parts_are_of_the_named_kinds_and_take_each_other_s_tensors(
    fields: dict[str, str], kinds: tuple[type, ...]
) -> None:
    suite, agent, memory = built(RunSpec(**fields, capacity=64, batch=8, envs=2))
    assert tuple(type(part) for part in (suite, agent, memory)) == kinds
    world = suite.world(2)
    world.reset(torch.zeros(2, dtype=torch.int64))
    for _ in range(8):
        action = agent.act(world.obs, torch.ones(2, 2), world.context)
        memory.add(world.step(action))
    drawn = memory.sample(8)
    assert drawn.obs.dtype == suite.obs_dtype
    assert agent.evaluate(drawn).td_error.shape == (2, 8)
    assert (drawn.context is None) == (not suite.context)


def test_returns_in_the_memory_are_discounted_as_the_agent_wants_them() -> None:
    """Rewards 1, 2, 3, … and γ = .5 over 3 steps: r + r′/2 + r″/4, and what follows counts .5³."""
    spec = RunSpec("nav-1", agent="rainbow", capacity=64, batch=8, envs=1)
    suite, _, memory = built(spec, gamma=0.5, n_step=3)
    for step in range(1, 11):
        obs = torch.full((2, 1, *suite.obs), float(step))
        reward, over = torch.full((2, 1), float(step)), torch.zeros(2, 1, dtype=torch.bool)
        none = torch.zeros(2, 1, dtype=torch.int64)
        memory.add(Transition(obs, none, reward, obs + 1, over, over, none))
    drawn = memory.sample(64)
    first = drawn.obs[..., 0]
    torch.testing.assert_close(drawn.reward, first + (first + 1) / 2 + (first + 2) / 4)
    assert (drawn.discount == 0.5**3).all()


def test_only_a_memory_with_anchors_stores_the_outputs_of_the_agent() -> None:
    _, agent, plain = built(RunSpec("nav-1", memory="crystal", preset="unanchored", capacity=64, batch=8))
    _, _, anchored = built(RunSpec("nav-1", memory="crystal", preset="anchored", capacity=64, batch=8))
    assert plain.nbytes < anchored.nbytes
    assert agent.anchors == {"advantage": (5,)}


@pytest.mark.parametrize(("name", "kind"), [("none", Method), ("ewc", EWC), ("distill", Distill)])
def test_a_method_is_attached_to_its_agent_and_memory(name: str, kind: type) -> None:
    spec = RunSpec("nav-1", method=name, capacity=64, batch=8)
    suite, agent, memory = built(spec)
    method = make_method(spec, suite, agent, memory, {"strength": (0.0, 2.0)} if name == "ewc" else {})
    assert type(method) is kind
    if name == "ewc":
        method.importance["q"].fill_(1.0)
        assert method.penalty("q", agent.theta + 1)[0] == 0
        assert method.penalty("q", agent.theta + 1)[1] > 0
