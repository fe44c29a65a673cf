"""The stream of a vector environment with autoreset: what is stored and drawn are its true transitions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from crystalrl import Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from tests.experience import MEMORIES


def rollout(envs: SyncVectorEnv, memory: ReplayMemory, steps: int) -> None:
    """The loop of a user with Gymnasium's default autoreset: the step after the end of an episode only resets."""
    obs, _ = envs.reset(seed=3)
    fresh = np.ones(envs.num_envs, bool)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        action = rng.integers(0, 2, envs.num_envs)
        after, reward, terminated, truncated, _ = envs.step(action)
        memory.add(Transition(obs, action, reward, after, terminated, truncated), valid=fresh)
        fresh = ~(terminated | truncated)
        obs = after


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Writes down every true transition of its environment."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seen: list[tuple[Any, ...]] = []

    def reset(self, **options: Any) -> Any:
        self.last, info = super().reset(**options)
        return self.last, info

    def step(self, action: Any) -> Any:
        after, reward, terminated, truncated, info = super().step(action)
        self.seen.append((self.last.tolist(), int(action), float(reward), after.tolist(), terminated, truncated))
        self.last = after
        return after, reward, terminated, truncated, info


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_vector_environment_leaves_exactly_its_true_transitions(n_step: int) -> None:
    recorders = [Recorder(gym.make("CartPole-v1", max_episode_steps=15)) for _ in range(4)]
    envs = SyncVectorEnv([lambda r=r: r for r in recorders], autoreset_mode=AutoresetMode.NEXT_STEP)
    memory = UniformMemory.from_spaces(
        envs.single_observation_space, envs.single_action_space, 5_000, envs=4, n_step=n_step, gamma=0.9
    )
    rollout(envs, memory, 300)
    memory.end_episode()
    envs.close()
    wanted = [window for r in recorders for window in windows(r.seen, n_step)]
    ends = [step for r in recorders for step in r.seen]
    assert sum(step[4] for step in ends) > 5
    assert sum(step[5] for step in ends) > 5
    assert int(memory.time) == len(ends)
    stored = memory.arena.unpack(memory.arena.rows[0, : len(memory)])
    got = zip(*(stored[name].tolist() for name in ("obs", "action", "reward", "next_obs", "discount")), strict=True)
    assert sorted(got) == sorted(wanted)


def windows(seen: list[tuple[Any, ...]], n: int) -> list[tuple[Any, ...]]:
    """What n-step returns of a recorded stream are, from the definition."""
    out = []
    for start in range(len(seen)):
        reward, k = 0.0, 0
        while True:
            _, _, r, after, terminated, truncated = seen[start + k]
            reward += 0.9**k * r
            k += 1
            if k == n or terminated or truncated or start + k == len(seen):
                break
        discount = 0.0 if terminated else 0.9**k
        out.append((seen[start][0], seen[start][1], float(np.float32(reward)), after, float(np.float32(discount))))
    return out


@pytest.mark.parametrize("kind", MEMORIES)
def test_every_batch_of_a_vector_environment_is_a_true_transition(kind: type[ReplayMemory]) -> None:
    recorders = [Recorder(gym.make("CartPole-v1")) for _ in range(2)]
    envs = SyncVectorEnv([lambda r=r: r for r in recorders])
    memory = kind.from_spaces(envs.single_observation_space, envs.single_action_space, 50, envs=2)
    rollout(envs, memory, 200)
    envs.close()
    true = {(tuple(o), a, r, tuple(n), t) for rec in recorders for o, a, r, n, t, _ in rec.seen}
    for _ in range(20):
        b = memory.sample(50)
        for o, a, r, n, d in zip(b.obs, b.action, b.reward, b.next_obs, b.discount, strict=True):
            assert (tuple(o.tolist()), int(a), float(r), tuple(n.tolist()), float(d) == 0) in true
