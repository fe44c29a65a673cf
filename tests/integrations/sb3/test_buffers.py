"""Samples are true transitions, other loops are detected, saved buffers resume exactly."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from crystalrl import CrystalParams, PrioritizedMemory
from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer, PrioritizedReplayBuffer
from tests.integrations.counters import BUFFERS, Counter, DictCounter, counted
from tests.integrations.twins import algorithm, build, trained


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("n_envs", [1, 3])
def test_every_sample_is_a_true_transition_and_timeouts_bootstrap(buffer: Any, n_envs: int) -> None:
    samples = counted(buffer, n_envs).replay_buffer.sample(256)
    episode, time = samples.observations.T
    assert {int(e) // 100 for e in episode} == set(range(n_envs))
    torch.testing.assert_close(samples.next_observations, torch.stack([episode, time + 1], 1))
    torch.testing.assert_close(samples.rewards[:, 0], episode + (time + 1) / 10)
    terminated = (time == 4) & (episode % 2 == 0)
    assert torch.equal(samples.dones[:, 0], terminated.float())
    assert bool(((time == 4) & ~terminated).any())
    assert samples.actions.shape == (256, 1)
    assert samples.discounts is None


def test_time_limits_count_as_terminations_on_request() -> None:
    model = counted(CrystalReplayBuffer, replay_buffer_kwargs={"handle_timeout_termination": False})
    samples = model.replay_buffer.sample(256)
    assert torch.equal(samples.dones[:, 0], (samples.observations[:, 1] == 4).float())


@pytest.mark.parametrize("buffer", BUFFERS)
def test_dict_observations_come_back_in_their_own_types(buffer: Any) -> None:
    samples = counted(buffer, 2, DictCounter).replay_buffer.sample(128)
    level, place = samples.observations["level"], samples.observations["place"]
    assert level.dtype == torch.int64
    assert torch.equal(level[:, 0].float(), place[:, 1])
    assert torch.equal(samples.next_observations["level"], level + 1)


class Odd(gym.Env[Any, Any]):
    """Random observations of the given spaces."""

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, False, bool(self.np_random.random() < 0.1), {}


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(16),
        gym.spaces.MultiBinary(3),
        gym.spaces.MultiDiscrete([3, 4]),
        gym.spaces.Box(0, 255, (1, 40, 40), np.uint8),
        gym.spaces.Box(-1, 1, (2, 2), np.float64),
    ],
    ids=str,
)
def test_every_space_comes_back_as_from_sb3_s_own_buffer(space: Any) -> None:
    action = gym.spaces.Box(-2, 3, (2, 2), np.float64)
    given = []
    for buffer in (CrystalReplayBuffer, None):
        options = {"buffer_size": 300, "learning_starts": 30, "replay_buffer_class": buffer, "batch_size": 8}
        policy = "CnnPolicy" if len(space.shape) == 3 else "MlpPolicy"
        model = SAC(policy, Odd(space, action), policy_kwargs={"net_arch": [8]}, **options)
        given.append(model.learn(40, callback=Consolidate() if buffer else None).replay_buffer.sample(8))
    for name in ("observations", "actions", "next_observations", "dones", "rewards"):
        ours, theirs = (getattr(samples, name) for samples in given)
        assert ours.shape == theirs.shape
        assert ours.dtype == (torch.float32 if theirs.dtype == torch.float64 else theirs.dtype)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_n_step_returns_are_those_of_sb3(n_envs: int) -> None:
    ours = counted(PrioritizedReplayBuffer, n_envs, replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99}, steps=120)
    theirs = counted(NStepReplayBuffer, n_envs, replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99}, steps=120)
    tables = []
    for model in (ours, theirs):
        s = model.replay_buffer.sample(300)  # drawn with replacement; the same start has one return
        rows = torch.cat([s.observations, s.rewards, s.next_observations, s.dones, (1 - s.dones) * s.discounts], 1)
        tables.append({tuple(row[:2]): row for row in rows.tolist()})
    common = tables[0].keys() & tables[1].keys()
    last = 120 // n_envs - 3  # SB3 cuts off the newest, unfinished windows; here they stay open
    common = {(e, t) for e, t in common if (e % 100) * 5 + t < last}
    assert len(common) > 60
    for start in common:
        np.testing.assert_allclose(tables[0][start], tables[1][start], rtol=1e-5)


def test_an_episode_abandoned_by_a_new_call_of_learn_ends_its_n_step_windows() -> None:
    model = counted(CrystalReplayBuffer, steps=53, replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99})
    model.learn(30, callback=Consolidate())
    samples = model.replay_buffer.sample(256)
    assert torch.equal(samples.observations[:, 0], samples.next_observations[:, 0])


@pytest.mark.parametrize("buffer", BUFFERS)
def test_batches_are_normalised_when_they_are_drawn(buffer: Any) -> None:
    env = VecNormalize(make_vec_env("Pendulum-v1", 2, seed=0))
    model = build("SAC", buffer, env=env).learn(160, callback=Consolidate())
    memory = model.replay_buffer.memory
    state = memory.state_dict()
    raw = memory.sample(64)
    memory.load_state_dict(state)
    samples = model.replay_buffer.sample(64, env=env)
    np.testing.assert_allclose(samples.observations, env.normalize_obs(raw.obs.numpy()), rtol=1e-6)
    np.testing.assert_allclose(samples.rewards[:, 0], env.normalize_reward(raw.reward.numpy()), rtol=1e-6)
    assert float(raw.obs.abs().max()) > 1.5 * float(samples.observations.abs().max())
    found = model.replay_buffer.evaluate(raw)
    mean, log_std, _ = model.actor.get_action_dist_params(samples.observations)
    torch.testing.assert_close(found.output["policy"], torch.cat([mean, log_std], 1).detach())


def test_a_buffer_that_sb3_has_unpickled_says_what_to_do_before_it_is_attached(tmp_path: Any) -> None:
    model = counted(CrystalReplayBuffer)
    model.save_replay_buffer(tmp_path / "buffer")
    model.load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(RuntimeError, match=r"load_replay_buffer.*model\.replay_buffer\.attach\(model\)"):
        model.replay_buffer.sample(8)
    model.replay_buffer.attach(model)
    assert model.replay_buffer.sample(8).rewards.shape == (8, 1)


def test_the_steps_and_gamma_of_a_loaded_memory_are_those_of_its_file(tmp_path: Any) -> None:
    steps: dict[str, Any] = {"n_steps": 3, "gamma": 0.9}
    counted(CrystalReplayBuffer, gamma=0.9, replay_buffer_kwargs=steps).replay_buffer.save(tmp_path / "memory")
    model = DQN("MlpPolicy", Counter(), replay_buffer_class=CrystalReplayBuffer, buffer_size=300, gamma=0.9)
    model.replay_buffer.load(tmp_path / "memory")
    model.learn(0, callback=Consolidate())
    assert model.replay_buffer.n_steps == 3
    assert model.replay_buffer.sample(8).discounts is not None


def test_a_loop_that_trains_on_other_tensors_is_detected() -> None:
    class Careless(SAC):
        def train(self, gradient_steps: int, batch_size: int = 64) -> None:
            data = self.replay_buffer.sample(batch_size)  # type: ignore[union-attr]
            (self.critic(data.observations.clone(), data.actions)[0] ** 2).mean().backward()
            self._n_updates += 1

    options = {"learning_starts": 10, "buffer_size": 100, "batch_size": 32}
    model = Careless("MlpPolicy", "Pendulum-v1", replay_buffer_class=CrystalReplayBuffer, **options)
    with pytest.raises(RuntimeError, match="weights were lost"):
        model.learn(60, callback=Consolidate())


def draws(model: Any, count: int = 5) -> list[torch.Tensor]:
    return [model.replay_buffer.memory.sample(32).index for _ in range(count)]


@pytest.mark.parametrize("name", ["SAC", "DQN"])
@pytest.mark.parametrize("way", ["our file", "pickle"])
def test_a_resumed_run_continues_as_if_never_interrupted(name: str, way: str, tmp_path: Any) -> None:
    model = trained(name)
    model.save(tmp_path / "model")
    again = algorithm(name).load(tmp_path / "model", env=model.get_env(), device="cpu")
    if way == "pickle":
        model.save_replay_buffer(tmp_path / "buffer")
        again.load_replay_buffer(tmp_path / "buffer")
    else:
        model.replay_buffer.save(tmp_path / "memory.safetensors")
        again.replay_buffer.load(tmp_path / "memory.safetensors")
    again.learn(0, callback=Consolidate(), reset_num_timesteps=False)
    for one in (model, again):
        torch.manual_seed(1)
        one.train(gradient_steps=10, batch_size=32)
        one.replay_buffer.consolidate()
        one.train(gradient_steps=10, batch_size=32)
    for a, b in zip(model.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    ours, theirs = model.replay_buffer.memory.state_dict(), again.replay_buffer.memory.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    again.replay_buffer.memory.check()


@pytest.mark.parametrize("buffer", BUFFERS)
def test_the_batches_after_loading_are_those_that_would_have_been_drawn(buffer: Any, tmp_path: Any) -> None:
    model = counted(buffer, 2, replay_buffer_kwargs={"n_steps": 2, "gamma": 0.99})
    model.replay_buffer.save(tmp_path / "memory.safetensors")
    copies = [pickle.loads(pickle.dumps(model.replay_buffer))]
    other = counted(buffer, 2, replay_buffer_kwargs={"n_steps": 2, "gamma": 0.99}, steps=40, seed=9)
    other.replay_buffer.load(tmp_path / "memory.safetensors")
    copies.append(other.replay_buffer)
    wanted = draws(model)
    for copy in copies:
        assert all(torch.equal(a, copy.memory.sample(32).index) for a in wanted)


def test_a_file_for_another_buffer_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "memory.safetensors"
    counted(CrystalReplayBuffer).replay_buffer.save(path)
    with pytest.raises(ValueError, match="wanted a PrioritizedMemory"):
        counted(PrioritizedReplayBuffer).replay_buffer.load(path)
    with pytest.raises(ValueError, match="capacity"):
        counted(CrystalReplayBuffer, buffer_size=200).replay_buffer.load(path)
    trained("SAC").replay_buffer.save(path)
    model = build("TD3")
    model.replay_buffer.load(path)
    with pytest.raises(ValueError, match="anchors"):
        model.learn(10, callback=Consolidate())


def test_a_seed_decides_everything_and_no_seed_nothing() -> None:
    def parameters(seed: int | None) -> torch.Tensor:
        model = trained("SAC", steps=150, seed=seed)
        return torch.cat([p.detach().flatten() for p in model.policy.parameters()])

    assert torch.equal(parameters(4), parameters(4))
    assert not torch.equal(parameters(None), parameters(None))


def test_prioritized_draws_follow_the_errors() -> None:
    """Frequencies are proportional to (|δ| + ε)^α, as in the tests of the memory itself."""
    model = build("SAC", PrioritizedReplayBuffer, replay_buffer_kwargs={"alpha": 1.0}).learn(
        120, callback=Consolidate()
    )
    memory = model.replay_buffer.memory
    assert isinstance(memory, PrioritizedMemory)
    model.train(gradient_steps=100, batch_size=64)
    wanted = memory.ledger.tree.weight[0, : len(memory)].double()
    drawn = torch.cat([memory.sample(256).index for _ in range(200)])
    counts = torch.bincount(drawn, minlength=len(memory)).double()
    expected = wanted / wanted.sum() * len(drawn)
    deviation = ((counts - expected) ** 2 / expected.clamp_min(1e-9)).sum() / len(memory)
    assert 0.6 < float(deviation) < 1.5  # chi² per degree of freedom
    assert float(wanted.max() / wanted.min()) > 5


def test_the_buffer_knows_its_size_and_parameters() -> None:
    model = counted(CrystalReplayBuffer, steps=60)
    assert isinstance(model.replay_buffer, ReplayBuffer)
    assert model.replay_buffer.size() == 60
    model.replay_buffer.reset()
    assert model.replay_buffer.size() == 0
    assert CrystalParams.anchored() == model.replay_buffer.params


def test_the_name_of_a_preset_is_refused_with_the_call_to_write() -> None:
    with pytest.raises(TypeError, match=r"^params: wanted CrystalParams, such as CrystalParams.anchored\(\)"):
        counted(CrystalReplayBuffer, steps=1, replay_buffer_kwargs={"params": "anchored"})


def test_the_return_of_an_episode_boosts_its_experiences() -> None:
    """Rewards rise from episode to episode, so the largest so far is the last one of each."""
    scores = []
    for boost in (True, False):
        params = CrystalParams.anchored(boost=boost, every=10_000, kappa=0.0, settle=None, sigma=0.0)
        model = counted(CrystalReplayBuffer, replay_buffer_kwargs={"params": params})
        memory = model.replay_buffer.memory
        if boost:
            told, gamma = memory.experiences(), model.gamma
            for episode in range(10):
                rewards = [episode + step / 10 for step in range(1, 6)]
                total = sum(gamma**t * reward for t, reward in enumerate(rewards))
                mine = told["index"][told["obs"][:, 0] == episode]
                wanted = torch.full((5,), total * (1 - gamma) / rewards[-1])
                torch.testing.assert_close(memory.ledger.boost[0, mine], wanted)
        memory.consolidate(lambda batch: torch.zeros_like(batch.reward))
        scores.append(memory.ledger.utility[0, : len(memory)])
    assert float((scores[0] - scores[1]).max()) > 0.01
