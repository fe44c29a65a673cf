"""What we rely on in TorchRL. If a new version breaks one of these, the test says what to change."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torchrl.data import LazyTensorStorage
from torchrl.data.replay_buffers.replay_buffers import TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.writers import Writer

from tests.integrations.torchrl_models import A, D, data, loss_module

ADAPTERS = "see crystalrl/integrations/torchrl/adapters.py"
SAMPLER = "see crystalrl/integrations/torchrl/sampler.py"


def unreduced(name: str) -> tuple[object, object, object]:
    """Loss, batch and outputs without reduction and weights, as MemoryLoss asks for them."""
    loss = loss_module(name)
    loss.reduction, loss.use_prioritized_weights = "none", False
    if name == "SAC":
        loss.scalar_output_mode = "exclude"
    batch = data(name, 16)
    batch["priority_weight"] = torch.zeros(16)
    return loss, batch, loss(batch)


@pytest.mark.parametrize("name", ["DQN", "SAC", "TD3"])
def test_losses_can_be_unreduced_and_unweighted(name: str) -> None:
    _, _, out = unreduced(name)
    for key, value in out.items():
        if key.startswith("loss") and key != "loss_alpha":  # it is 0 at first
            assert value.shape == (16,), (
                f"{name} {key}: wanted one number per sample, got {list(value.shape)}; {ADAPTERS}"
            )
            assert bool(value.any()), f"{name} {key}: wanted weights ignored on request, got zeros; {ADAPTERS}"


@pytest.mark.parametrize("name", ["DQN", "SAC", "TD3"])
def test_a_weighted_loss_is_divided_by_the_sum_of_the_weights(name: str) -> None:
    """We do not rely on it: it is why MemoryLoss exists. If this fails, MemoryLoss may no longer be needed."""
    loss, batch = loss_module(name), data(name, 16)
    torch.manual_seed(0)
    plain = loss(batch)
    batch["priority_weight"] = torch.full((16,), 0.25)
    torch.manual_seed(0)
    weighted = loss(batch)
    critic = "loss" if name == "DQN" else "loss_qvalue"
    changed = f"{name}: constant weights have an effect now; {ADAPTERS}"
    torch.testing.assert_close(plain[critic], weighted[critic], msg=changed)


def test_what_losses_write_as_td_error_is_squared_or_the_larger_of_twins() -> None:
    for name, meaning in (("DQN", "δ²"), ("SAC", "the larger |δ|"), ("TD3", "the larger δ²")):
        _, batch, out = unreduced(name)
        written = batch["td_error"].reshape(-1)
        if name == "DQN":
            ok = torch.allclose(written, out["loss"], rtol=1e-5)  # its default distance is the squared one
        elif name == "TD3":
            ok = torch.allclose(written, (out["pred_value"] - out["target_value"]).pow(2).amax(0), rtol=1e-5)
        else:
            ok = bool((written >= 0).all()) and written.shape == (16,)
        assert ok, f"{name}: wanted {meaning} in td_error; {ADAPTERS}"


def test_networks_and_parameters_are_where_we_look_for_them() -> None:
    wanted = {
        "DQN": ("value_network", "value_network_params", "action_space"),
        "SAC": ("actor_network", "actor_network_params", "qvalue_network", "qvalue_network_params", "_vmap_qnetworkN0"),
        "TD3": (
            "actor_network",
            "qvalue_network",
            "qvalue_network_params",
            "_vmap_qvalue_network00",
            "num_qvalue_nets",
        ),
    }
    for name, attributes in wanted.items():
        loss = loss_module(name)
        for attribute in (*attributes, "tensor_keys", "reduction", "use_prioritized_weights"):
            assert hasattr(loss, attribute), f"{name}Loss.{attribute} is gone; {ADAPTERS}"


def test_a_squashed_policy_has_its_mean_and_deviation_before_tanh() -> None:
    loss = loss_module("SAC")
    with loss.actor_network_params.to_module(loss.actor_network):
        law = loss.actor_network.get_dist(data("SAC", 4).select("observation"))
    assert law.loc.shape == law.scale.shape == (4, A), f"wanted loc and scale [B, A]; {ADAPTERS}"
    assert D == 3


def test_samplers_and_writers_have_the_methods_that_buffers_call() -> None:
    assert list(inspect.signature(Sampler.sample).parameters) == ["self", "storage", "batch_size"], SAMPLER
    ours = {"sample", "state_dict", "load_state_dict", "_empty", "dumps", "loads"}
    assert Sampler.__abstractmethods__ == ours, f"wanted {ours}, got {Sampler.__abstractmethods__}; {SAMPLER}"
    ours = {"add", "extend", "_empty", "dumps", "loads", "state_dict", "load_state_dict"}
    assert Writer.__abstractmethods__ == ours, f"wanted {ours}, got {Writer.__abstractmethods__}; {SAMPLER}"


def test_a_storage_counts_writes_and_refuses_slots_beyond_that_count() -> None:
    """So slots must be filled without gaps; otherwise stored experiences could not be read."""
    storage = LazyTensorStorage(10)
    storage.set(torch.tensor([0, 1, 0]), data("DQN", 3))
    assert len(storage) == 3, f"wanted a length that counts writes, got {len(storage)}; {SAMPLER}"
    with pytest.raises(IndexError):
        storage.get(torch.tensor([7]))


def test_the_info_that_a_sampler_returns_is_put_into_the_batch() -> None:
    source = inspect.getsource(TensorDictReplayBuffer.sample)
    assert "data.set(key, val)" in source, f"wanted the sampler's info in the batch; {SAMPLER}"


def test_we_do_not_need_torchrl_s_compiled_extension_and_the_benchmark_reports_that_it_is_missing() -> None:
    """A wheel works with one version of PyTorch only; here, on purpose, the extension cannot be built either."""
    program = """
import sys
sys.modules["torchrl._torchrl"] = None
from tests.integrations.torchrl_models import LOSSES, trained
for name in LOSSES:
    assert len(trained(name, rounds=2)[1]) == 100
from benchmarks.libraries.torchrl_extension import load
there, make = load()
assert not there and make.startswith("no extension"), make
"""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PATH": "", "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PrioritizedSampler is missing, so the comparison is with its uniform buffer" in done.stderr
