"""The losses and gradients of a MemoryLoss equal losses that are written out."""

from __future__ import annotations

import pytest
import torch

from crystalrl import CrystalParams
from crystalrl.integrations.torchrl import MemoryLoss
from tests.integrations.gradients import difference, gradients_of, varied
from tests.integrations.torchrl_models import (
    ANCHORS,
    LOSSES,
    NO_ANCHORS,
    data,
    explicit,
    loss_module,
    make,
    pull,
    trained,
)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("params", [NO_ANCHORS, ANCHORS], ids=["weights", "anchors"])
def test_gradients_are_those_of_explicit_losses(name: str, params: CrystalParams) -> None:
    loss, _sampler, buffer = trained(name, params)
    batch, reported = buffer.sample(), []
    assert varied(batch["memory", "weight"])
    loss.report = lambda index, error: reported.append((index, error))
    torch.manual_seed(5)
    ours = loss(batch)
    torch.manual_seed(5)
    theirs, error, outputs = explicit(name, loss.loss, batch)
    if params is ANCHORS:
        key = loss.adapter.anchored
        assert float((batch["memory", f"{key}_strength"] > 0).float().mean()) > 0.3
        theirs[f"loss_anchor_{key}"] = pull(name, key, batch, outputs[key])
    assert set(ours.keys()) == set(theirs)
    for key, value in theirs.items():
        assert difference(gradients_of(ours[key], loss), gradients_of(value, loss)) <= 1e-6, key
    torch.testing.assert_close(reported[0][1], error, rtol=1e-5, atol=1e-5)
    assert torch.equal(reported[0][0], batch["index"])


@pytest.mark.parametrize("name", LOSSES)
def test_evaluation_gives_the_loss_s_own_td_errors_and_outputs_and_changes_no_random_numbers(name: str) -> None:
    loss, _sampler, buffer = trained(name)
    batch = buffer.sample()
    state = torch.get_rng_state()
    found = loss.evaluate(batch)
    assert torch.equal(torch.get_rng_state(), state)
    _, error, outputs = explicit(name, loss.loss, batch)
    torch.testing.assert_close(found.td_error, error, rtol=1e-5, atol=1e-5)
    assert set(found.output) == set(outputs)
    assert (found.stake is None) == (name == "DQN")
    if found.stake is not None:
        policy = found.output["policy"]
        preferred = policy.chunk(2, -1)[0].tanh() if name == "SAC" else policy
        best = loss.adapter.values(batch.clone(False).set("action", preferred)).detach()
        torch.testing.assert_close(found.stake, (best - found.output["q"]).mean(1), rtol=1e-4, atol=1e-5)
    for key, output in outputs.items():
        torch.testing.assert_close(found.output[key], output.detach(), rtol=1e-5, atol=1e-5)


def test_constant_and_zero_weights_scale_the_loss_where_torchrl_s_own_mean_cancels_them() -> None:
    """TorchRL's own mean divides by the sum of the weights."""
    loss, _sampler, buffer = trained("DQN", NO_ANCHORS)
    batch = buffer.sample()
    plain = loss_module("DQN")
    plain.load_state_dict(loss.loss.state_dict())
    for factor in (1.0, 0.5, 0.0):
        batch["memory", "weight"] = torch.full((32,), factor)
        batch["priority_weight"] = torch.full((32,), factor)
        torch.manual_seed(0)
        ours, theirs = float(loss(batch)["loss"].detach()), float(plain(batch)["loss"].detach())
        if factor == 1.0:
            whole = ours
        assert ours == pytest.approx(factor * whole)
        assert theirs == pytest.approx(whole) if factor else theirs != theirs


def test_other_reductions_and_batches_without_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="reduction: wanted 'mean' or 'none', got 'sum'"):
        MemoryLoss(loss_module("DQN", reduction="sum"))
    loss, _sampler, _buffer = make("DQN")
    with pytest.raises(KeyError, match="wanted one that a CrystalSampler has drawn"):
        loss(data("DQN", 10))
