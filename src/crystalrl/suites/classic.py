"""Gymnasium's classic control as families of tasks that differ in physics, MinAtar's games, and single environments.

`FAMILY`           the unchanged environment, one task; the score is the return.
`FAMILY-N`         N tasks: the first unchanged, the others with their own lengths, masses and forces, drawn from the
                   lane's seed; every second one has mirrored actions. The score is 0 for a random and 1 for a good
                   policy. `FAMILY-N-hidden`: the task id is hidden.
`classic`          CartPole, Acrobot, Pendulum and MountainCarContinuous, of different sizes, all controlled by one
                   number in [−1, 1]: equal intervals of it select a discrete action.
`classic-discrete` the first two, `classic-continuous` the last two, with their native actions.
`minatar-5`        five games, 10 × 10 frames with ten channels, all six actions.
`gym:ID`           any registered Gymnasium environment, unchanged, such as gym:HalfCheetah-v5; the score is the return.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from crystalrl.random import Stream, Streams
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import Sizes, largest, sizes_of
from crystalrl.suites.tasks import Task


@dataclass(frozen=True)
class Family:
    """An environment, its sizes, typical returns, and the physics that vary: attribute → its original value."""

    make: str
    sizes: Sizes
    random: float
    """Mean return of a random policy: score 0."""
    good: float
    """Return of a good policy: score 1."""
    physics: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.3
    """Largest relative change of an attribute, up or down."""

    def tasks(self, seed: int, count: int) -> list[Task]:
        """The tasks of a lane; task k does not depend on `count`."""
        width = len(self.physics)
        number = torch.arange(count * width).unsqueeze(0)
        drawn = Streams([seed]).at(Stream.ENVIRONMENT, number).view(count, width)
        tasks = []
        for k in range(count):
            factors = (1 + self.spread * (2 * drawn[k] - 1)).tolist() if k else [1.0] * width
            own = {name: value * f for (name, value), f in zip(self.physics.items(), factors, strict=True)}
            name = f"task {k + 1} ({self.make})"
            tasks.append(Task(name, self.make, physics=own, flip=k % 2 == 1, low=self.random, high=self.good))
        return tasks

    def alone(self) -> Task:
        """The unchanged environment; its return is the score."""
        return Task(self.make, self.make)


FAMILIES: dict[str, Family] = {
    "cartpole": Family("CartPole-v1", Sizes((4,), 2), 20.0, 500.0, {"length": 0.5, "force_mag": 10.0, "gravity": 9.8}),
    "acrobot": Family("Acrobot-v1", Sizes((6,), 3), -500.0, -80.0, {"LINK_LENGTH_1": 1.0, "LINK_MASS_2": 1.0}, 0.2),
    "pendulum": Family("Pendulum-v1", Sizes((3,), (1,)), -1250.0, -150.0, {"g": 10.0, "m": 1.0, "l": 1.0}, 0.2),
    "mountaincar": Family(
        "MountainCarContinuous-v0", Sizes((2,), (1,)), -33.0, 90.0, {"power": 0.0015, "goal_position": 0.45}, 0.1
    ),
}
GAMES = {"breakout": 0.5, "space_invaders": 3.0, "freeway": 0.0, "asterix": 0.5, "seaquest": 0.1}
"""Mean return of a random policy, rounded. Games that are learnt quickly come first, so that there is something to
forget.
"""
GOOD = {"breakout": 10.0, "space_invaders": 50.0, "freeway": 50.0, "asterix": 15.0, "seaquest": 10.0}
"""Return of a good policy: score 1."""
FRAMES = Sizes((10, 10, 10), 6, torch.bool)
MIXED = {
    "classic": ("cartpole", "acrobot", "pendulum", "mountaincar"),
    "classic-discrete": ("cartpole", "acrobot"),
    "classic-continuous": ("pendulum", "mountaincar"),
}
GYM = "gym:"

NAME = re.compile(rf"({'|'.join(FAMILIES)})(?:-([1-9]\d*)(-hidden)?)?")


def stage_count(name: str) -> int | None:
    """Number of stages of a suite; None if this module has no such suite."""
    if name in MIXED:
        return len(MIXED[name])
    if name.startswith(GYM):
        check_id(name.removeprefix(GYM))
        return 1
    if name == "minatar-5":
        return len(GAMES)
    if name.startswith("minatar-"):
        return 1 if name.removeprefix("minatar-") in GAMES else None
    match = NAME.fullmatch(name)
    return None if match is None else int(match[2] or 1)


def task_names(name: str) -> tuple[str, ...]:
    """Names of a suite's tasks; empty if they are all of one kind."""
    if name in MIXED:
        return tuple(FAMILIES[part].make for part in MIXED[name])
    return tuple(GAMES) if name == "minatar-5" else ()


def suite(name: str, seeds: Sequence[int], device: torch.device | str = "cpu") -> GymSuite:
    """The tasks of every lane."""
    if name in MIXED:
        families = [FAMILIES[part] for part in MIXED[name]]
        stages = [replace(f.tasks(0, 1)[0], name=f"task {k + 1} ({f.make})") for k, f in enumerate(families)]
        return GymSuite([stages] * len(seeds), largest([f.sizes for f in families]), seeds, device)
    if name.startswith(GYM):
        only = name.removeprefix(GYM)
        task = Task(only, only)
        try:
            return GymSuite([[task]] * len(seeds), sizes_of(task), seeds, device)
        except ValueError as error:
            raise ValueError(f"suite: {only}: {error}") from error
    if name.startswith("minatar-"):
        only = name.removeprefix("minatar-")
        if only in GAMES:
            return GymSuite([[Task(only, f"minatar:{only}")]] * len(seeds), FRAMES, seeds, device)
        games = [Task(game, f"minatar:{game}", low=low, high=GOOD[game]) for game, low in GAMES.items()]
        return GymSuite([games] * len(seeds), FRAMES, seeds, device)
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"suite: wanted one of {', '.join(FAMILIES)}, got {name!r}")
    family = FAMILIES[match[1]]
    own = [family.tasks(seed, int(match[2])) if match[2] else [family.alone()] for seed in seeds]
    return GymSuite(own, family.sizes, seeds, device, visible=not match[3])


def check_id(name: str) -> None:
    """Raise, with Gymnasium's own message and suggestions, if it has no environment with this id."""
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise ValueError(f"suite: wanted the package for {GYM}{name}, got none: pip install gymnasium") from None
    try:
        gymnasium.spec(name)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise ValueError(f"suite: wanted an id that Gymnasium knows, got {GYM}{name}: {error}") from error
