"""Images whose frames are stored once: a model of Stable-Baselines3 learns the same, bit for bit."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer, PrioritizedReplayBuffer
from crystalrl.memory import ReplayMemory
from tests.experience import assert_same_batch


class Moving(gym.Env[Any, Any]):
    """Random images of 8 × 8 pixels, in episodes of random length."""

    observation_space = gym.spaces.Box(0, 255, (8, 8, 1), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.image(), {}

    def image(self) -> Any:
        return self.np_random.integers(0, 256, (8, 8, 1), np.uint8)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ends, cut = self.np_random.random(2) < 0.05
        return self.image(), float(self.np_random.normal()), bool(ends), bool(cut), {}


def stacked_model(buffer: Any, stack: int | None, n_steps: int = 1) -> DQN:
    env = VecFrameStack(make_vec_env(Moving, 2, seed=0), 4)
    options: dict[str, Any] = {"buffer_size": 100, "learning_starts": 30, "batch_size": 8, "seed": 1}
    options["replay_buffer_kwargs"] = {"stack": stack, "seed": 2, "n_steps": n_steps}
    return DQN("MlpPolicy", env, replay_buffer_class=buffer, policy_kwargs={"net_arch": [8]}, **options)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("buffer", [CrystalReplayBuffer, PrioritizedReplayBuffer])
def test_with_frames_stored_once_a_model_learns_the_same(buffer: Any, n_steps: int, tmp_path: Any) -> None:
    once, whole = (stacked_model(buffer, stack, n_steps).learn(300, callback=Consolidate()) for stack in (4, None))
    for mine, theirs in zip(once.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        assert np.array_equal(getattr(once.replay_buffer, name), getattr(whole.replay_buffer, name)), name
    assert once.replay_buffer.memory.nbytes < 0.7 * whole.replay_buffer.memory.nbytes
    once.replay_buffer.memory.check()
    once.replay_buffer.save(tmp_path / "buffer")
    wanted = once.replay_buffer.sample(16).observations
    once.replay_buffer.load(tmp_path / "buffer")
    assert torch.equal(once.replay_buffer.sample(16).observations, wanted)
    with pytest.raises(ValueError, match="wanted stack None, got 4"):
        whole.replay_buffer.load(tmp_path / "buffer")


def test_a_stack_that_does_not_fit_the_images_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"stack: wanted observations whose first axis is a multiple of 3, got .*4, 8, 8"
    ):
        stacked_model(PrioritizedReplayBuffer, 3).learn(10, callback=Consolidate())


def atari_memory(buffer: Any, stack: int | None) -> ReplayMemory:
    """The memory of a model that has played Breakout, with SB3's own wrappers, for 400 steps."""
    env = VecFrameStack(make_atari_env("BreakoutNoFrameskip-v4", 2, seed=0), 4)
    options: dict[str, Any] = {"buffer_size": 300, "learning_starts": 250, "batch_size": 8, "seed": 1, "train_freq": 50}
    options["replay_buffer_kwargs"] = {"stack": stack, "seed": 2}
    model = DQN("MlpPolicy", env, replay_buffer_class=buffer, policy_kwargs={"net_arch": [4]}, **options)
    model.learn(400, callback=Consolidate())
    env.close()
    found: ReplayMemory = model.replay_buffer.memory
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("buffer", "most"), [(CrystalReplayBuffer, 2_000), (PrioritizedReplayBuffer, 8_500)])
def test_frames_of_a_real_game_take_few_bytes_and_give_the_same_batches(buffer: Any, most: int) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    once, whole = atari_memory(buffer, 4), atari_memory(buffer, None)
    assert len(once) == 300
    assert_same_batch(once.sample(64), whole.sample(64))
    assert whole.nbytes > 56_000 * 300
    assert once.nbytes < most * 300
