"""Adapters know TorchRL's losses and refuse others."""

from __future__ import annotations

import pytest
import torch

from crystalrl.integrations.torchrl.adapters import DQN, SAC, TD3, adapter_for
from tests.integrations.torchrl_models import LOSSES, A, data, loss_module


@pytest.mark.parametrize(("name", "kind"), [("DQN", DQN), ("SAC", SAC), ("TD3", TD3)])
def test_a_subclass_of_a_loss_gets_the_adapter_of_its_base(name: str, kind: type) -> None:
    loss = loss_module(name)
    loss.__class__ = type("Own", (type(loss),), {})
    assert type(adapter_for(loss)) is kind


@pytest.mark.parametrize("name", LOSSES)
def test_outputs_are_the_values_and_what_is_anchored(name: str) -> None:
    adapter = adapter_for(loss_module(name))
    outputs = adapter.outputs(data(name, 5))
    sizes = {"DQN": {"q": A, "advantage": A}, "SAC": {"q": 2, "policy": 2 * A}, "TD3": {"q": 2, "policy": A}}[name]
    assert {key: tuple(output.shape) for key, output in outputs.items()} == {k: (5, n) for k, n in sizes.items()}
    assert adapter.anchored == ("advantage" if name == "DQN" else "policy")


def test_one_hot_actions_become_numbers() -> None:
    loss = loss_module("DQN")
    loss.action_space = "one_hot"
    batch = data("DQN", 6)
    numbers = batch["action"].clone()
    batch["action"] = torch.nn.functional.one_hot(numbers, A).bool()
    adapter = adapter_for(loss)
    assert torch.equal(adapter.action(batch), numbers)
    assert adapter.actions(batch) == A


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(TypeError, match="wanted one of DQNLoss, SACLoss, TD3Loss or a subclass, got Linear"):
        adapter_for(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="num_qvalue_nets: wanted 1 or 2, got 3"):
        adapter_for(loss_module("SAC", num_qvalue_nets=3))
    loss = loss_module("DQN")
    loss.action_space = "binary"
    with pytest.raises(ValueError, match="action_space: wanted categorical or one-hot actions, got binary"):
        adapter_for(loss)
