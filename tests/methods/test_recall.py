"""RECALL: normalised targets, and the policy of completed tasks distilled."""

import pytest
import torch

from crystalrl.methods.recall import RECALLParams, targets
from tests.methods.runs import play, practise, trainer


def test_only_the_policy_is_distilled_and_only_on_completed_tasks() -> None:
    made = trainer("recall", "sac")
    practise(made, 0)
    kept = {key: stored.clone() for key, stored in made.method.outputs.items()}
    assert set(kept) == {"policy"}
    made.begin(1)
    play(made, 8)
    batch = made.memory.sample(64)
    anchor = made.method.augment(batch).anchor
    assert torch.equal(anchor["policy"].coefficient, (batch.context == 0).float())
    for lane, i in (batch.context == 0).nonzero().tolist():
        assert torch.equal(anchor["policy"].target[lane, i], kept["policy"][lane, batch.index[lane, i]])


@pytest.mark.parametrize("agent", ["dqn", "sac", "td3"])
def test_targets_approach_mean_zero_and_scale_one_whatever_the_rewards(agent: str) -> None:
    made = trainer("recall", agent, method_params={"rate": 0.2})
    made.begin(0)
    play(made, 10, idle=10)
    made.memory.arena.columns["reward"].mul_(1000).add_(300)
    for _ in range(60):
        made.learn()
    batch = made.memory.sample(96)
    raw, normal = (targets(made.agent, each) for each in (batch, made.method.popart.normalised(batch)))
    assert float(raw.abs().mean()) > 50
    assert float(normal.mean().abs()) < 1.5
    assert 0.05 < float(normal.std()) < 3


def test_the_moments_of_completed_tasks_stay() -> None:
    made = trainer("recall")
    practise(made, 0)
    mean = made.method.popart.mean.clone()
    made.begin(1)
    play(made, 12)
    assert torch.equal(made.method.popart.mean[:, 0], mean[:, 0])
    assert (made.method.popart.mean[:, 1] != mean[:, 1]).all()


def test_other_agents_and_a_single_head_are_refused() -> None:
    with pytest.raises(ValueError, match="method recall: wanted dqn, sac or td3, got Rainbow"):
        trainer("recall", "rainbow")
    with pytest.raises(ValueError, match="method recall: wanted multi_head = true"):
        trainer("recall", agent_params={"width": 12})
    with pytest.raises(ValueError, match="method recall: wanted dueling = false"):
        trainer("recall", agent_params={"width": 12, "multi_head": True, "dueling": True})
    with pytest.raises(ValueError, match=r"rate: wanted a number in \(0, 1\], got 0"):
        RECALLParams(rate=0)
