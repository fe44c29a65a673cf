"""Progressive networks: old columns stay as they are, and no column reads a later one."""

import pytest
import torch

from tests.methods.runs import ALL_AGENTS, practise, scores, trainer


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_old_columns_and_their_outputs_are_unchanged(agent: str) -> None:
    made = trainer("pnn", agent)
    obs = torch.randn(2, 50, *made.suite.obs, generator=torch.Generator().manual_seed(0))
    seen = {}
    for task in range(3):
        practise(made, task)
        for old, outputs in seen.items():
            again = made.agent.network(made.agent.theta, obs, torch.full((2, 50), old))
            assert torch.equal(again, outputs)
        seen[task] = made.agent.network(made.agent.theta, obs, torch.full((2, 50), task)).detach().clone()


def test_only_the_column_of_the_task_and_its_head_are_trained() -> None:
    made = trainer("pnn")  # 12 units: columns of 4
    practise(made, 0)
    made.begin(1)
    before = made.agent.network.split(made.agent.theta.detach().clone())
    practise(made, 1)
    after = made.agent.network.split(made.agent.theta.detach())
    for layer in range(2):
        moved = (after[layer][0] != before[layer][0]).flatten(0, 1).any(0)
        assert not moved[:4].any()
        assert moved[4:8].any()
        assert not moved[8:].any()
    heads = (after[2][0] != before[2][0]).any(0)  # [in, heads · actions]
    assert not heads[:, :5].any()
    assert heads[:8, 5:10].any()
    assert not heads[8:].any()
    assert not heads[:, 10:].any()


def test_no_column_reads_a_later_one() -> None:
    made = trainer("pnn")
    for task in range(3):
        practise(made, task)
    weight = made.agent.network.split(made.agent.theta.detach())[1][0]  # second hidden layer
    for target in range(3):
        assert not weight[:, 4 * (target + 1) :, 4 * target : 4 * (target + 1)].any()
        assert weight[:, : 4 * (target + 1), 4 * target : 4 * (target + 1)].all()


def test_columns_count_as_memory() -> None:
    made = trainer("pnn")
    masks = made.method.trainable["q"].nbytes
    assert made.method.nbytes == masks + made.agent.theta.nbytes * 2 // 3


def test_a_width_that_columns_do_not_divide_and_a_single_head_are_refused() -> None:
    with pytest.raises(ValueError, match="method pnn: wanted a width that 3 columns divide, got 16"):
        trainer("pnn", agent_params={"width": 16, "multi_head": True})
    with pytest.raises(ValueError, match="method pnn: wanted multi_head = true, got one head for all tasks"):
        trainer("pnn", agent_params={"width": 12})


@pytest.mark.slow
def test_it_forgets_nothing() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 2000, "batch": 64}
    R = scores(method="pnn", agent_params={"width": 96, "multi_head": True}, **fields)
    assert torch.equal(R[:, 1, 0], R[:, 3, 0])
    assert torch.equal(R[:, 2, 1], R[:, 3, 1])
    assert R[:, 3].mean() > 0.6
