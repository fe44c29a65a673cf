"""Recorded data crystallize with a fitted critic; the experiences of highest c are exported as a Minari dataset.

It records its own data, with a CartPole policy that acts at random half of the time; nothing is downloaded. Run
`python examples/minari_offline.py`; set MINARI_DATASETS_PATH (absolute) to keep the data."""

from __future__ import annotations

import argparse
import os
from tempfile import mkdtemp
from typing import Any

import gymnasium as gym
import minari
import numpy as np
import torch
from minari.data_collector import EpisodeBuffer
from torch import Tensor, nn

from crystalrl import Batch
from crystalrl.integrations.minari import export, memory_of, ranked


def record(dataset_id: str, episodes: int) -> Any:
    env, rng, buffers = gym.make("CartPole-v1"), np.random.default_rng(0), []
    for seed in range(episodes):
        seen: dict[str, list[Any]] = {name: [] for name in ("actions", "rewards", "terminations", "truncations")}
        observations, over = [env.reset(seed=seed)[0]], False
        while not over:
            position = observations[-1]
            action = int(position[2] + position[3] > 0) if rng.random() < 0.5 else int(rng.integers(2))
            after, reward, terminated, truncated, _ = env.step(action)
            observations.append(after)
            for name, value in zip(seen, (action, reward, terminated, truncated), strict=True):
                seen[name].append(value)
            over = terminated or truncated
        buffers.append(EpisodeBuffer(observations=np.array(observations), infos={}, **seen))
    about = {"algorithm_name": "half balanced", "author": "example", "description": "examples/minari_offline.py"}
    return minari.create_dataset_from_buffers(dataset_id, buffer=buffers, env=env, **about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--updates", type=int, default=1_000)
    options = parser.parse_args()
    os.environ.setdefault("MINARI_DATASETS_PATH", mkdtemp())
    torch.manual_seed(0)
    dataset = record("example/recorded-v0", options.episodes)
    memory = memory_of(dataset, gamma=0.95)

    network, slow = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)

    def error(batch: Batch) -> Tensor:
        with torch.no_grad():
            target = batch.reward + batch.discount * slow(batch.next_obs).amax(1)
        return target - network(batch.obs).gather(1, batch.action[:, None])[:, 0]

    for _ in range(options.updates):  # fitted Q-iteration
        optimiser.zero_grad()
        (error(memory.sample(128)) ** 2).mean().backward()
        optimiser.step()
        for a, b in zip(slow.parameters(), network.parameters(), strict=True):
            a.data.lerp_(b.data, 0.02)
    for _ in range(20):
        report = memory.consolidate(lambda batch: error(batch).detach())

    best = ranked(memory)
    print("memory:", ", ".join(f"{report.scalars()[phase]:.0f} {phase}" for phase in ("liquid", "glass", "crystal")))
    tenth = len(best["c"]) // 10
    for name, part in (("highest", slice(tenth)), ("lowest", slice(-tenth, None))):
        print(f"{name} c: {best['c'][part].mean():.3f}, mean |angle| {best['obs'][part, 2].abs().mean():.3f}")
    kept = export(memory, "example/kept-v0", like=dataset, top=2 * tenth, algorithm_name="ranked", author="example")
    print(f"exported {kept.total_steps} of {dataset.total_steps} steps in {kept.total_episodes} pieces")


if __name__ == "__main__":
    main()
