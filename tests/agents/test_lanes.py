"""A lane among three equals its seed alone, bit for bit; an agent goes on from its saved state."""

import pytest
import torch

from crystalrl.agents import DQN, SAC, TD3, Agent, DQNParams, Rainbow, RainbowParams, SACParams, Spaces, TD3Params
from crystalrl.random import Streams
from crystalrl.study.plan import plan
from crystalrl.study.run import Learner
from crystalrl.study.spec import RunSpec
from tests.agents.batches import batch

ANCHORED = {"memory": "crystal", "preset": "anchored"}
SMALL = {"width": 16, "depth": 2}
HEADS = {**SMALL, "multi_head": True}
DESIGNS = {
    "sac": {"suite": "pendulum-2", "agent": "sac", "agent_params": {**SMALL, "task_temperature": True}},
    "sac anchored": {"suite": "pendulum-2", "agent": "sac", "agent_params": {"width": 33}, **ANCHORED},
    "sac ewc heads": {"suite": "pendulum-2", "agent": "sac", "method": "ewc", "agent_params": HEADS},
    "sac distill": {"suite": "classic-continuous", "agent": "sac", "method": "distill", "agent_params": SMALL},
    "td3": {"suite": "mountaincar-2", "agent": "td3", "agent_params": {**SMALL, "layer_norm": True}},
    "td3 anchored": {"suite": "pendulum-2", "agent": "td3", "agent_params": SMALL, **ANCHORED},
    "rainbow": {"suite": "cartpole-2", "agent": "rainbow", "memory": "prioritized", "agent_params": SMALL},
    "rainbow anchored": {"suite": "minatar-5", "agent": "rainbow", "agent_params": HEADS, **ANCHORED},
    "rainbow ewc": {"suite": "minatar-5", "agent": "rainbow", "method": "ewc", "agent_params": SMALL},
    "dqn frames": {"suite": "minatar-5", "method": "distill", "agent_params": {**SMALL, "dueling": True}},
    "dqn hidden": {"suite": "cartpole-2-hidden", "agent_params": {"width": 9, "schedule": "cosine"}},
}


def final_state(design: str, seeds: tuple[int, ...]) -> dict[str, torch.Tensor]:
    (group,) = plan({"row": RunSpec(seeds=seeds, steps=400, capacity=200, batch=19, envs=3, **DESIGNS[design])})
    learner = Learner(group, torch.device("cpu"))
    for stage in range(2):
        learner.begin(stage)
        for step in range(45):
            learner.collect()
            if step > 5:
                learner.learn()
            if step % 20 == 10:
                learner.memory.consolidate(learner.agent.evaluate)
        learner.end(stage)
    return learner.agent.state_dict() | {"obs": learner.world.obs}


@pytest.mark.parametrize("design", DESIGNS)
def test_a_lane_among_three_equals_its_seed_alone_bit_for_bit(design: str) -> None:
    together, alone = final_state(design, (3, 7, 11)), final_state(design, (7,))
    for name, tensor in alone.items():
        if tensor.dim() > 1:
            rows = together[name].unflatten(0, (3, -1))[1]
            assert torch.equal(rows, tensor), f"{name}: {(rows - tensor).abs().max()}"


BOX, COUNT = Spaces((3,), (2,)), Spaces((3,), 2)
MAKERS = {
    "dqn": lambda: DQN(COUNT, DQNParams(width=8), Streams([1, 2])),
    "rainbow": lambda: Rainbow(COUNT, RainbowParams(width=8), Streams([1, 2])),
    "sac": lambda: SAC(BOX, SACParams(width=8), Streams([1, 2])),
    "td3": lambda: TD3(BOX, TD3Params(width=8), Streams([1, 2])),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_restored_agent_goes_on_as_the_original(name: str) -> None:
    one: Agent = MAKERS[name]()
    two: Agent = MAKERS[name]()
    drawn = batch(discrete=name in ("dqn", "rainbow"))
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


@pytest.mark.parametrize("name", MAKERS)
def test_one_lane_with_a_huge_error_does_not_disturb_the_other(name: str) -> None:
    calm, wild = MAKERS[name](), MAKERS[name]()
    discrete = name in ("dqn", "rainbow")
    calm.update(batch(discrete=discrete, reward=torch.zeros(2, 6)))
    wild.update(batch(discrete=discrete, reward=torch.cat([torch.zeros(1, 6), torch.full((1, 6), 1e4)])))
    for key in ("theta", "critics"):
        if key in calm.state_dict():
            rows = [agent.state_dict()[key].unflatten(0, (2, -1))[0] for agent in (calm, wild)]
            assert torch.equal(*rows)
