"""Recorded data: loaded and exported without loss, ranked by c; demonstrations are kept from the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import minari
import numpy as np
import pytest
import torch
from minari.data_collector import EpisodeBuffer

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.integrations.minari import demonstration, export, fill, memory_of, ranked

pytestmark = pytest.mark.filterwarnings("ignore:`", "ignore:The")  # Minari wants links, mails and requirements


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def record(env_id: str = "CartPole-v1", episodes: int = 5, most: int = 60, name: str = "test/recorded-v0") -> Any:
    """A dataset recorded here by a random policy; episodes are cut off after `most` steps."""
    env, buffers = gym.make(env_id, max_episode_steps=most), []
    env.action_space.seed(0)
    for seed in range(episodes):
        observations, steps = [env.reset(seed=seed)[0]], []
        while not steps or not (steps[-1][2] or steps[-1][3]):
            action = env.action_space.sample()
            after, *outcome = env.step(action)
            observations.append(after)
            steps.append((action, *outcome[:3]))
        actions, rewards, terminated, truncated = (np.array(part) for part in zip(*steps, strict=True))
        buffers.append(
            EpisodeBuffer(
                observations=np.array(observations),
                actions=actions,
                rewards=rewards,
                terminations=terminated,
                truncations=truncated,
                infos={},
            )
        )
    return minari.create_dataset_from_buffers(
        name, buffer=buffers, env=env, algorithm_name="random", author="test", description="recorded in a test"
    )


def about() -> dict[str, str]:
    return {"algorithm_name": "ranked", "author": "test", "description": "exported in a test"}


def evaluate(batch: Any) -> torch.Tensor:
    """A critic whose TD error grows with the pole's angle."""
    return batch.obs[:, 2].abs() * 10 + 0.1


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_dataset_is_loaded_and_exported_step_by_step_without_change(env_id: str) -> None:
    dataset = record(env_id)
    memory = memory_of(dataset)
    assert len(memory) == dataset.total_steps
    again = export(memory, "test/again-v0", like=dataset, **about())
    assert (again.total_episodes, again.total_steps) == (dataset.total_episodes, dataset.total_steps)
    for one, two in zip(dataset.iterate_episodes(), again.iterate_episodes(), strict=True):
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-6)
        assert len(two.infos["c"]) == len(two) + 1


def test_c_ranks_by_utility_when_nothing_else_acts() -> None:
    dataset = record(episodes=8)
    params = CrystalParams.anchored(sigma=0.0, settle=None, kappa=0.0, interference="none", backup=0.0)
    memory = memory_of(dataset, params)
    for _ in range(10):
        report = memory.consolidate(evaluate)
    assert len(memory) == dataset.total_steps  # nothing is evicted
    assert float(report.scalars()["glass"] + report.scalars()["crystal"]) > 0
    order = ranked(memory)
    assert bool((order["c"].diff() <= 0).all())
    angle = order["obs"][:, 2].abs()
    fifth = len(angle) // 5
    assert float(angle[:fifth].mean()) > 2 * float(angle[-fifth:].mean())
    number = torch.cat([torch.arange(dataset.total_steps)])
    assert torch.equal(order["number"].sort().values, number)


def test_the_experiences_of_highest_c_are_exported_as_pieces_of_their_episodes() -> None:
    dataset = record(episodes=6)
    memory = memory_of(dataset)
    for _ in range(5):
        memory.consolidate(evaluate)
    wanted = ranked(memory)
    kept = export(memory, "test/best-v0", like=dataset, top=30, **about())
    assert kept.total_steps == 30
    steps = np.concatenate([episode.observations[:-1] for episode in kept.iterate_episodes()])
    assert {tuple(row) for row in steps.tolist()} == {tuple(row) for row in wanted["obs"][:30].tolist()}
    lowest = min(float(np.nanmin(episode.infos["c"])) for episode in kept.iterate_episodes())
    assert lowest == pytest.approx(float(wanted["c"][29]))
    for episode in kept.iterate_episodes():
        assert episode.terminations[-1] or episode.truncations[-1]
        following = {
            tuple(o): tuple(n) for o, n in zip(wanted["obs"].tolist(), wanted["next_obs"].tolist(), strict=True)
        }
        for before, after in zip(episode.observations[:-1].tolist(), episode.observations[1:].tolist(), strict=True):
            assert following[tuple(before)] == tuple(after)


def test_demonstrations_start_as_glass_and_are_crystals_after_a_consolidation_that_outlive_later_experiences() -> None:
    dataset = record(episodes=4)
    steps = int(dataset.total_steps)
    params = CrystalParams.anchored(time_unit=50, every=200, kappa=0.0, settle=None, interference="none", backup=0.0)
    memory = CrystalMemory(3 * steps, obs=(4,), action=2, params=params)
    slots = fill(memory, dataset, demonstrations=True)
    assert bool((memory.ledger.phase[0, slots] == 2).all())
    assert demonstration(params) == 0.7
    memory.consolidate(lambda batch: torch.full((len(batch.reward),), 0.01))
    assert bool((memory.ledger.phase[0, slots[:-1]] == 3).all())  # no time has passed for the last
    memory.pin(slots)  # otherwise later crystals may replace them
    rng = np.random.default_rng(0)
    for _ in range(1000):
        obs, after = rng.normal(size=(2, 4)).astype(np.float32)
        memory.add(Transition(obs, int(rng.integers(2)), 0.0, after, False))
        if memory.due:
            memory.consolidate(lambda batch: torch.full((len(batch.reward),), 0.01))
    stored = memory.arena.unpack(memory.arena.rows[0, slots])["obs"]
    assert torch.equal(stored, torch.cat([torch.as_tensor(e.observations[:-1]) for e in dataset]))
    batch = memory.sample(100)
    assert int((memory.ledger.phase[0, batch.index] == 3).sum()) >= 50


def test_misuse_is_refused_with_a_reason() -> None:
    dataset = record()
    small = CrystalMemory(20, obs=(4,), action=2, params=CrystalParams.anchored())
    with pytest.raises(ValueError, match="wanted at most the 10 steps that the crystal store holds"):
        fill(small, dataset, demonstrations=True)
    with pytest.raises(ValueError, match="wanted one lane and one environment"):
        fill(CrystalMemory(40, obs=(4,), action=2, envs=2), dataset)
    with pytest.raises(ValueError, match="n_step: wanted 1"):
        export(CrystalMemory(40, obs=(4,), action=2, n_step=3), "test/n-v0", like=dataset)
    with pytest.raises(ValueError, match="wanted at least one experience, got none of phase crystal"):
        export(memory_of(dataset), "test/none-v0", like=dataset, phase="crystal")


def test_minari_behaves_as_we_rely_on() -> None:
    """An episode has one observation more than steps; exactness needs jpeg_encoding=False."""
    import inspect

    given = inspect.signature(minari.create_dataset_from_buffers).parameters
    assert "jpeg_encoding" in given, "export must say how images are stored: see crystalrl/integrations/minari.py"
    episode = next(iter(record().iterate_episodes()))
    assert len(episode.observations) == len(episode.actions) + 1, "transitions() pairs observation k with k + 1"
    for name in ("rewards", "terminations", "truncations"):
        assert len(getattr(episode, name)) == len(episode), f"transitions() reads one of {name} per step"
