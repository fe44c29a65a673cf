"""Options and models that the buffers do not support are refused, with a reason."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from packaging.version import Version
from stable_baselines3 import DQN, HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv

from crystalrl import CrystalParams
from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer
from crystalrl.integrations.sb3.checks import silence_n_steps
from tests.integrations.counters import BUFFERS, counted
from tests.integrations.twins import build


@pytest.mark.filterwarnings("ignore:`n_steps=3` is ignored")  # newer versions of SB3 say so, too
def test_misuse_is_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="optimize_memory_usage: wanted False"):
        counted(CrystalReplayBuffer, optimize_memory_usage=True)
    with pytest.raises(ValueError, match="goal relabelling"):
        counted(CrystalReplayBuffer, replay_buffer_kwargs={"goal_selection_strategy": "future"})
    with pytest.raises(TypeError, match="goal relabelling"):
        type("Both", (CrystalReplayBuffer, HerReplayBuffer), {})
    with pytest.raises(TypeError, match="unknown arguments sesd"):
        counted(CrystalReplayBuffer, replay_buffer_kwargs={"sesd": 3})
    with pytest.raises(ValueError, match="gamma: wanted the model's"):
        counted(CrystalReplayBuffer, replay_buffer_kwargs={"n_steps": 3, "gamma": 0.5})
    with pytest.raises(ValueError, match="n_steps: wanted"):
        counted(CrystalReplayBuffer, n_steps=3, replay_buffer_kwargs={"n_steps": 2})
    with pytest.raises(ValueError, match=r"use_sde: .*unanchored\(\)"):
        build("SAC", use_sde=True).learn(10, callback=Consolidate())
    options = {"params": CrystalParams.unanchored()}
    build("SAC", use_sde=True, replay_buffer_kwargs=options).learn(10, callback=Consolidate())
    with pytest.raises(RuntimeError, match=r"callback=Consolidate\(\)"):
        build("SAC").learn(10)
    with pytest.raises(TypeError, match="wanted a model with"):
        build("SAC", None).learn(10, callback=Consolidate())
    her = DQN("MultiInputPolicy", BitFlippingEnv(4), buffer_size=100, replay_buffer_class=HerReplayBuffer)
    with pytest.raises(TypeError, match="goal relabelling"):
        her.learn(10, callback=Consolidate())


@pytest.mark.parametrize("buffer", BUFFERS)
def test_the_model_s_n_steps_are_taken_without_the_warning_that_they_are_ignored(buffer: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        silence_n_steps()
        model = counted(buffer, n_steps=3, gamma=0.9)
    assert not [str(each.message) for each in caught if "n_steps" in str(each.message)]
    assert model.replay_buffer.memory.spec.n_step == 3
    samples = model.replay_buffer.sample(64)
    ahead = samples.next_observations[:, 1] - samples.observations[:, 1]
    assert int(ahead.max()) == 3
    np.testing.assert_allclose(samples.discounts[samples.dones == 0], 0.9 ** ahead[samples.dones[:, 0] == 0], rtol=1e-6)


@pytest.mark.skipif(Version(version("stable-baselines3")) < Version("2.9"), reason="it does not warn before 2.9")
def test_another_buffer_s_warning_about_n_steps_stays() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        silence_n_steps()
        counted(type("Own", (ReplayBuffer,), {}), n_steps=3)
    assert any("is ignored because a custom" in str(each.message) for each in caught)


def test_a_compiled_critic_is_refused() -> None:
    model = build("SAC")
    model.critic.compile(backend="eager")
    with pytest.raises(ValueError, match="compiled"):
        model.learn(10, callback=Consolidate())


def test_without_faiss_a_memory_too_large_to_consolidate_on_a_cpu_is_warned_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build("DQN", buffer_size=30_000).learn(1, callback=Consolidate())  # with faiss no warning, which would be an error
    monkeypatch.setitem(sys.modules, "faiss", None)  # as if it were not installed
    with pytest.warns(UserWarning, match="buffer_size: a consolidation compares"):
        build("DQN", buffer_size=30_000).learn(1, callback=Consolidate())
