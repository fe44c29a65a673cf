"""Try a task: take random actions in its environment and look at what comes back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crystalrl.suites.makers import close
from crystalrl.suites.sizes import Sizes, env_sizes, started
from crystalrl.suites.tasks import Task, problems
from crystalrl.suites.worker import BadData, checked_observation, finite, native_action, reset_seed, set_physics

SUCCESS = ("success", "is_success")
"""Keys of `info` that report a success."""


@dataclass(frozen=True)
class Limits:
    """How long a task is tried: until the first of these is reached."""

    episodes: int = 10
    steps: int = 10_000
    seconds: float = 3.0
    repeated: int = 200
    """Steps that are repeated under the same seed, to see whether they are the same."""


@dataclass
class Episode:
    """One episode of random actions."""

    first: bytes = b""
    """Its first observation."""
    steps: int = 0
    total: float = 0.0
    success: bool = False
    ended: bool = False


@dataclass
class Findings:
    """What was seen of a task."""

    problems: list[str] = field(default_factory=list)
    """Each is "what: wanted X, got Y"."""
    sizes: Sizes | None = None
    episodes: list[Episode] = field(default_factory=list)
    """Those that ended."""
    repeats: bool | None = None
    """Whether the same seed and actions give the same observations and rewards; None: not known."""
    seconds: float = float("nan")
    """Seconds per step."""


def probe(task: Task, limits: Limits | None = None, clock: Callable[[], float] = time.perf_counter) -> Findings:
    """Try a task. Nothing is raised: what is wrong is in the problems."""
    found = Findings(problems(task))
    if found.problems:
        return found
    try:
        env = started(task)
        set_physics(env, task.physics)
        found.sizes = env_sizes(env)
    except ValueError as error:
        found.problems.append(str(error))
        return found
    try:
        _Trial(task, env, found, limits or Limits(), clock).run()
    except Exception as error:
        said = str(error) if isinstance(error, BadData) else ""
        found.problems.append(said or f"step: wanted a transition, got {type(error).__name__}: {error}")
    finally:
        close(env)
    return found


class _Trial:
    """One environment that is tried."""

    def __init__(self, task: Task, env: Any, found: Findings, limits: Limits, clock: Callable[[], float]) -> None:
        self.task, self.env, self.found, self.limits, self.now = task, env, found, limits, clock
        self.keys: set[str] = set()
        """Keys of `info` so far."""

    def run(self) -> None:
        first = self._track(self.limits.repeated, self.limits.seconds)
        self._play()
        self.found.repeats = self._track(len(first), math.inf) == first
        if self.task.success and self.found.episodes and not self.keys & set(SUCCESS):
            got = ", ".join(sorted(self.keys)) or "an empty one"
            self.found.problems.append(f'success: wanted "success" or "is_success" in info, got {got}')

    def _play(self) -> None:
        """Play until a limit is reached."""
        begun, steps, limits = self.now(), 0, self.limits
        while len(self.found.episodes) < limits.episodes and steps < limits.steps:
            episode = Episode()
            for _ in self._steps(len(self.found.episodes), episode):
                steps += 1
                if steps >= limits.steps or self.now() - begun > limits.seconds:
                    break
            if not episode.ended:
                break
            self.found.episodes.append(episode)
        self.found.seconds = (self.now() - begun) / max(steps, 1)
        if not self.found.episodes and steps >= limits.steps:
            hint = "a limit can be set with options = { max_episode_steps = 1000 }"
            self.found.problems.append(f"episodes: wanted one that ends, got none in {steps} steps; {hint}")

    def _track(self, most: int, seconds: float) -> list[tuple[bytes, float]]:
        """Observations and rewards of the first steps under one seed; the reset is the first of them."""
        begun, episode = self.now(), Episode()
        track = [(b"", 0.0)]
        for seen, reward in self._steps(0, episode):
            track.append((seen.tobytes(), reward))
            if len(track) >= most or self.now() - begun > seconds:
                break
        return [(episode.first, 0.0), *track[1:]]

    def _steps(self, number: int, episode: Episode) -> Iterator[tuple[Any, float]]:
        """The observations and rewards of an episode under random actions, which depend on its number alone."""
        random = np.random.default_rng(number)
        obs, _ = self.env.reset(seed=reset_seed(0, number))
        episode.first = checked_observation(self.env, obs).tobytes()
        while not episode.ended:
            action = native_action(self.env.action_space, self._random(random), self.task.flip)
            obs, reward, terminated, truncated, info = self.env.step(action)
            seen, earned = checked_observation(self.env, obs), float(finite("reward", reward))
            self.keys |= set(info)
            episode.steps += 1
            episode.total += earned
            episode.success |= any(bool(info.get(key)) for key in SUCCESS)
            episode.ended = bool(terminated or truncated)
            yield seen, earned

    def _random(self, random: np.random.Generator) -> Any:
        assert self.found.sizes is not None
        action = self.found.sizes.action
        if isinstance(action, int):
            return np.asarray(random.integers(action))
        return random.uniform(-1, 1, action).astype(np.float32)
