"""Saved and copied buffers for Tianshou go on like the original."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from tianshou.utils.torch_utils import policy_within_training_step

from crystalrl import CheckpointError, CrystalMemory, CrystalParams
from tests.integrations.tianshou_models import ENVS, make, step, train, trained


@pytest.mark.parametrize("exact", [16_384, 100], ids=["all pairs", "kept lists"])
def test_a_loaded_buffer_consolidates_exactly_like_the_saved_one(
    exact: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrystalMemory, "exact_up_to", {"cpu": exact})  # above it neighbour lists are kept
    params = CrystalParams.anchored(time_unit=20, every=50, alpha=2.0)
    made, buffer = trained("SAC", params)
    buffer.save(tmp_path / "memory.safetensors")
    _, again = make("SAC", params)
    again.attach(made)
    again.load(tmp_path / "memory.safetensors")
    for each in (buffer, again):
        each.adapter = buffer.adapter
        torch.manual_seed(2)
        with policy_within_training_step(made.policy):
            each.consolidate()
    states = buffer.memory.state_dict(), again.memory.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name
    assert any(name.startswith("vicinity.") for name in states[0]) == (exact == 100)


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.parametrize("exact", [16_384, 100], ids=["all pairs", "kept lists"])
def test_a_copied_buffer_goes_on_exactly_like_its_original(
    way: str, exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrystalMemory, "exact_up_to", {"cpu": exact})  # above it neighbour lists are kept
    made, buffer = trained("DQN", CrystalParams.anchored(time_unit=20, every=50, alpha=2.0))
    again = pickle.loads(pickle.dumps(buffer)) if way == "pickle" else deepcopy(buffer)
    with pytest.raises(RuntimeError, match=r"call buffer\.attach\(algorithm\)"):
        deepcopy(buffer).sample(4)
    twin = deepcopy(made)
    again.attach(twin)
    stream = [step("DQN", rng) for rng in [np.random.default_rng(5)] for _ in range(40)]
    for algorithm, each in ((made, buffer), (twin, again)):
        train(algorithm, each, stream)
    states = buffer.memory.state_dict(), again.memory.state_dict()
    differing = [name for name, tensor in states[0].items() if not torch.equal(tensor, states[1][name])]
    assert set(differing) <= {"ledger.slot.claims"}  # a copy restarts the generation counters
    assert all(torch.equal(a, b) for a, b in zip(made.policy.parameters(), twin.policy.parameters(), strict=True))
    for name in ("obs", "act", "rew", "done"):
        np.testing.assert_array_equal(buffer._meta[name], again._meta[name])
        assert not np.shares_memory(buffer._meta[name], again._meta[name])
    np.testing.assert_array_equal(buffer.links.after, again.links.after)


def test_a_copied_empty_buffer_can_be_filled() -> None:
    made, buffer = make("DQN")
    again = deepcopy(buffer)
    again.attach(made)
    again.add(step("DQN", np.random.default_rng(0)))
    assert (len(again), len(buffer)) == (ENVS, 0)


def test_a_file_for_another_buffer_is_refused(tmp_path: Path) -> None:
    _, buffer = trained("SAC", steps=20)
    buffer.save(tmp_path / "memory.safetensors")
    with pytest.raises(CheckpointError, match="wanted 100 slots"):
        make("SAC", slots=100)[1].load(tmp_path / "memory.safetensors")
    with pytest.raises(CheckpointError, match="wanted params"):
        make("SAC", CrystalParams.anchored(kappa=0.2))[1].load(tmp_path / "memory.safetensors")
