"""Streams of experiences for benchmarks of large memories: `take(count)` gives columns [count, …] by name."""

from __future__ import annotations

from typing import Any

import numpy as np

Columns = dict[str, np.ndarray]


class Walks:
    """AR(1) states of 50 environments in 39 dimensions, restarted every 500 steps; rho: correlation of successive ones,
    0 is noise."""

    obs, action, envs = 39, 4, 50

    def __init__(self, rho: float, seed: int = 0) -> None:
        self.rho, self.rng, self.step = rho, np.random.default_rng(seed), 0
        self.state = self._draw()

    def _draw(self) -> np.ndarray:
        return self.rng.normal(size=(self.envs, self.obs)).astype(np.float32)

    def take(self, count: int) -> Columns:
        steps = count // self.envs
        obs, next_obs = np.empty((2, steps, self.envs, self.obs), np.float32)
        for t in range(steps):
            obs[t] = self.state
            self.state = self.rho * self.state + np.float32((1 - self.rho**2) ** 0.5) * self._draw()
            next_obs[t] = self.state
            self.step += 1
            if self.step % 500 == 0:
                self.state = self._draw()
        action = self.rng.uniform(-1, 1, (count, self.action)).astype(np.float32)
        flat = next_obs.reshape(count, self.obs)
        return {
            "obs": obs.reshape(count, self.obs),
            "next_obs": flat,
            "action": action,
            "reward": np.sin(2 * flat[:, 0]),
        }


class Rollouts:
    """Ten environments of a MuJoCo task under AR(1) actions, correlation .9. options: for gymnasium.make."""

    envs = 10

    def __init__(self, task: str, seed: int = 0, **options: Any) -> None:
        import gymnasium

        self.worlds: Any = [gymnasium.make(task, **options) for _ in range(self.envs)]
        self.rng = np.random.default_rng(seed)
        self.state = [world.reset(seed=seed + n)[0].astype(np.float32) for n, world in enumerate(self.worlds)]
        self.obs, self.action = len(self.state[0]), self.worlds[0].action_space.shape[0]
        self.last = np.zeros((self.envs, self.action))

    def take(self, count: int) -> Columns:
        rows = []
        for _ in range(count // self.envs):
            self.last = 0.9 * self.last + 0.44 * self.rng.normal(size=self.last.shape)
            rows += [self._step(n, world) for n, world in enumerate(self.worlds)]
        columns = (np.asarray(column, np.float32) for column in zip(*rows, strict=True))
        return dict(zip(("obs", "next_obs", "action", "reward"), columns, strict=True))

    def _step(self, n: int, world: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        obs, space = self.state[n], world.action_space
        action = np.clip(self.last[n] * space.high, space.low, space.high).astype(np.float32)
        next_obs, reward, terminated, truncated, _ = world.step(action)
        next_obs = next_obs.astype(np.float32)
        self.state[n] = world.reset()[0].astype(np.float32) if terminated or truncated else next_obs
        return obs, next_obs, action, float(reward)


def meta_world(task: str) -> Rollouts:
    import metaworld  # noqa: F401  (registers its tasks)

    return Rollouts("Meta-World/MT1", env_name=task, disable_env_checker=True)
