"""Memories for real environments: Gymnasium's spaces, and a stream of a vector environment with autoreset."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from crystalrl import PrioritizedMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from tests.experience import MEMORIES

ONE = spaces.Discrete(3)
OBSERVATIONS: dict[str, tuple[spaces.Space[Any], Any, Any]] = {
    "box": (spaces.Box(-1, 1, (4,), np.float32), (4,), torch.float32),
    "float64 box": (spaces.Box(-1, 1, (4,), np.float64), (4,), torch.float32),
    "float16 box": (spaces.Box(-1, 1, (4,), np.float16), (4,), torch.float16),
    "pixels": (spaces.Box(0, 255, (3, 8, 8), np.uint8), (3, 8, 8), torch.uint8),
    "scalar box": (spaces.Box(0, 1, (), np.float32), (), torch.float32),
    "discrete": (spaces.Discrete(7), (), torch.int64),
    "discrete from three": (spaces.Discrete(7, start=3), (), torch.int64),
    "multi binary": (spaces.MultiBinary(5), (5,), torch.int8),
    "multi binary grid": (spaces.MultiBinary([2, 3]), (2, 3), torch.int8),
    "multi discrete": (spaces.MultiDiscrete([3, 4]), (2,), torch.int64),
    "dict": (
        spaces.Dict({"z": spaces.Box(0, 255, (2, 2), np.uint8), "a": spaces.Discrete(3), "m": spaces.MultiBinary(2)}),
        {"a": (), "m": (2,), "z": (2, 2)},
        {"a": torch.int64, "m": torch.int8, "z": torch.uint8},
    ),
}
ACTIONS: dict[str, tuple[spaces.Space[Any], Any, torch.dtype]] = {
    "discrete": (spaces.Discrete(6), 6, torch.int64),
    "box": (spaces.Box(-1, 1, (6,), np.float32), (6,), torch.float32),
    "scalar box": (spaces.Box(-1, 1, (), np.float32), (), torch.float32),
    "multi discrete": (spaces.MultiDiscrete([3, 4]), (2,), torch.int64),
    "multi binary": (spaces.MultiBinary(4), (4,), torch.int8),
}


def stored_as(given: Any, dtype: Any) -> Any:
    if isinstance(given, dict):
        return {name: stored_as(value, dtype[name]) for name, value in given.items()}
    return torch.as_tensor(given).to(dtype)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
    return one.dtype == other.dtype and torch.equal(one, other)


def first(values: Any) -> Any:
    return {name: value[0] for name, value in values.items()} if isinstance(values, dict) else values[0]


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_of_every_space_come_back_as_they_were(kind: type[ReplayMemory], name: str) -> None:
    space, shape, dtype = OBSERVATIONS[name]
    memory = kind.from_spaces(space, ONE, 10)
    assert (memory.spec.obs, memory.spec.action) == (shape, 3)
    space.seed(0)
    obs, after = space.sample(), space.sample()
    memory.add(Transition(obs, 1, 0.5, after, False))
    batch = memory.sample(3)
    assert same(first(batch.obs), stored_as(obs, dtype))
    assert same(first(batch.next_obs), stored_as(after, dtype))
    assert batch.action.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_of_every_space_come_back_as_they_were(name: str) -> None:
    space, declared, dtype = ACTIONS[name]
    memory = UniformMemory.from_spaces(spaces.Box(-1, 1, (2,)), space, 10)
    assert memory.spec.action == declared
    space.seed(0)
    action = space.sample()
    memory.add(Transition(np.zeros(2, np.float32), action, 0.0, np.zeros(2, np.float32), False))
    assert same(memory.sample(1).action[0], torch.as_tensor(action).to(dtype))


REFUSED: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], str]] = {
    "tuple": (
        spaces.Tuple([ONE, ONE]),
        ONE,
        "wanted Box, Discrete, MultiBinary, MultiDiscrete or a Dict of them, got Tuple",
    ),
    "nested dict": (spaces.Dict(a=spaces.Dict(b=ONE)), ONE, "or a Dict of them, got Dict"),
    "dict of tuple": (spaces.Dict(a=spaces.Tuple([ONE])), ONE, "got Tuple"),
    "text": (spaces.Text(5), ONE, "space: wanted"),
    "sequence": (spaces.Sequence(ONE), ONE, "got Sequence"),
    "unsigned 32 bits": (spaces.Box(0, 9, (2,), np.uint32), ONE, "numeric dtype, got uint32"),
    "dict action": (ONE, spaces.Dict(a=ONE), "got Dict"),
    "tuple action": (ONE, spaces.Tuple([ONE]), "got Tuple"),
    "actions from one": (ONE, spaces.Discrete(3, start=1), "wanted actions numbered from 0, got Discrete"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_spaces_that_cannot_be_stored_are_refused(name: str) -> None:
    observation, action, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        UniformMemory.from_spaces(observation, action, 10)


def test_options_beside_spaces_are_honoured() -> None:
    memory = PrioritizedMemory.from_spaces(
        spaces.Box(-1, 1, (2,), np.float64), ONE, 10, obs_dtype=torch.float64, lanes=2, envs=3, gamma=0.5
    )
    assert memory.spec.obs_dtype == torch.float64
    assert (memory.lanes, memory.spec.envs, memory.spec.gamma) == (2, 3, 0.5)


def test_float64_observations_keep_all_digits_if_asked_to() -> None:
    memory = UniformMemory(5, obs=(2,), action=2, obs_dtype=torch.float64)
    obs = np.array([np.pi, 1e300])
    memory.add(Transition(obs, 0, 0.0, obs, False))
    assert memory.sample(1).obs[0].tolist() == obs.tolist()


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
