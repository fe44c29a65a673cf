"""Environments that step on shared arrays: in this process, or in a separate program that `workers` starts.

The program must start quickly and must not load PyTorch, so this module imports only NumPy, and Gymnasium or the
package of an environment when a task needs it.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.suites.dicts import GoalVectors, shows_goals
from crystalrl.suites.makers import MAKERS, close
from crystalrl.suites.signals import Word

Arrays = Mapping[str, NDArray[Any]]
Layout = Sequence[tuple[str, Sequence[int], str]]
"""Name, shape and dtype of each shared array."""
Request = Mapping[str, Any]
"""How a row starts: {row, task, seed, episode, actions, worker}."""
Failure = dict[str, Any]
"""An environment that failed: {row, step, what, fatal}. `step` counts the steps of its episode; `fatal`: it must not be
started again.
"""
ALIGN = 64
SPARE = 64
"""Environments that a process keeps although no row uses them."""
ALIVE = 1.0
"""Seconds after which a waiting worker checks that its parent is still alive."""


def nbytes(layout: Layout) -> int:
    """Total bytes of all arrays, each aligned."""
    return sum(_aligned(shape, dtype) for _, shape, dtype in layout)


def views(buffer: Any, layout: Layout) -> dict[str, NDArray[Any]]:
    """The arrays inside a buffer."""
    out, at = {}, 0
    for name, shape, dtype in layout:
        out[name] = np.ndarray(tuple(shape), dtype, buffer, at)
        at += _aligned(shape, dtype)
    return out


def _aligned(shape: Sequence[int], dtype: str) -> int:
    return -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // ALIGN) * ALIGN


def reset_seed(base: int, episode: int) -> int:
    """Seed of an episode: a hash of the environment's seed and the episode number."""
    return int(np.random.SeedSequence([base, episode]).generate_state(1)[0] >> 1)


class BadData(ValueError):
    """An environment returned a reward or an observation that cannot be learnt from."""


class BadWrapper(ValueError):
    """A wrapper of a task does not exist or failed."""


class Slots:
    """The environments of some rows of the arrays.

    Invariant: `shown[row]` is the current observation of the row's environment, in step `age[row]` of episode
    `episode[row]`; arrays hold finite numbers only. The reset seed is a function of the row's base seed and the
    episode's number, so an episode can be replayed from its actions.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.now: dict[int, tuple[Any, Mapping[str, Any]]] = {}
        """Row → its environment and the request that started it."""
        self.spare: list[tuple[str, Any]] = []
        """Environments that no row uses now, and what each may be used for; at most SPARE, the oldest first."""

    def begin(self, requests: Sequence[Request]) -> list[Failure]:
        """Start rows: {row, task, seed, episode, actions}; the actions are those taken in the episode so far."""
        failures = []
        for request in requests:
            self.arrays["at"][request["worker"]] = request["row"]
            try:
                self._begin(request)
            except Exception as error:
                failures.append(self._failure(request["row"], f"could not start: {_said(error)}", fatal=True))
        return failures

    def _begin(self, request: Request) -> None:
        row, task = request["row"], request["task"]
        self.arrays["age"][row] = 0
        env = self._environment(row, task)
        set_physics(env, task["physics"])
        self.now[row] = (env, request)
        self.arrays["episode"][row] = request["episode"]
        self._reset(row)
        for action in request["actions"]:
            taken = np.asarray(action, self.arrays["action"].dtype)
            self.arrays["age"][row] += 1
            self._show(row, env.step(self._native(row, taken))[0])

    def _environment(self, row: int, task: Mapping[str, Any]) -> Any:
        """The row's own environment if it fits the task, or a spare one, or a new one."""
        key = _key(task)
        if row in self.now:
            env, request = self.now.pop(row)
            self.spare.append((_key(request["task"]), env))
        fitting = [at for at, (known, _) in enumerate(self.spare) if known == key]
        env = self.spare.pop(fitting[-1])[1] if fitting else make(task)
        while len(self.spare) > SPARE:
            close(self.spare.pop(0)[1])
        return env

    def step(self, rows: Sequence[int]) -> list[Failure]:
        """Take the actions of all rows that are neither idle nor failed; return the failures."""
        arrays, failures = self.arrays, []
        for row in rows:
            if arrays["idle"][row] or arrays["failed"][row]:
                continue
            arrays["at"][self.now[row][1]["worker"]] = row
            arrays["age"][row] += 1
            try:
                self._step(row)
            except Exception as error:
                fatal = isinstance(error, BadData)
                failures.append(self._failure(row, _said(error), fatal))
                failures += [] if fatal else self._renew(row)
            arrays["done"][row] = True
        return failures

    def _failure(self, row: int, what: str, fatal: bool) -> Failure:
        return {"row": row, "step": int(self.arrays["age"][row]), "what": what, "fatal": fatal}

    def _step(self, row: int) -> None:
        env, _ = self.now[row]
        obs, reward, terminated, truncated, info = env.step(self._native(row, self.arrays["action"][row]))
        arrays, seen, earned = self.arrays, checked_observation(env, obs), finite("reward", reward)
        _pad(arrays["after"][row], seen)
        arrays["reward"][row], arrays["terminated"][row], arrays["truncated"][row] = earned, terminated, truncated
        arrays["success"][row] = bool(info.get("success", info.get("is_success", False)))
        if terminated or truncated:
            arrays["episode"][row] += 1
            self._reset(row)
        else:
            _pad(arrays["shown"][row], seen)

    def _renew(self, row: int) -> list[Failure]:
        """Replace an environment that failed; its episode is truncated and its last step has no effect."""
        truncate(self.arrays, row)
        _, request = self.now.pop(row)
        return self.begin([{**request, "episode": int(self.arrays["episode"][row]), "actions": []}])

    def _reset(self, row: int) -> None:
        env, request = self.now[row]
        self.arrays["age"][row] = 0
        self._show(row, env.reset(seed=reset_seed(request["seed"], int(self.arrays["episode"][row])))[0])

    def _show(self, row: int, obs: Any) -> None:
        _pad(self.arrays["shown"][row], checked_observation(self.now[row][0], obs))

    def _native(self, row: int, action: NDArray[Any]) -> Any:
        env, request = self.now[row]
        return native_action(env.action_space, action, request["task"]["flip"])


def checked_observation(env: Any, obs: Any) -> NDArray[Any]:
    """An observation as an array of the environment's own shape, with finite numbers."""
    value = np.asarray(obs)
    wanted = getattr(getattr(env, "observation_space", None), "shape", None)
    if wanted is not None and value.shape != tuple(wanted):
        raise BadData(f"observation: wanted the shape {tuple(wanted)}, got {value.shape}")
    return finite("observation", value) if value.dtype.kind == "f" else value


def native_action(space: Any, action: NDArray[Any], flip: bool) -> Any:
    """The environment's own action for an action of the suite, which may have more actions (they wrap around) and may
    mirror them. If the suite has a box, equal intervals of its first number select a discrete action.
    """
    if hasattr(space, "n"):
        count = int(space.n)
        choice = int(action) % count if not action.shape else min(int((action[0] + 1) / 2 * count), count - 1)
        return int(getattr(space, "start", 0)) + (count - 1 - choice if flip else choice)
    own = action[: space.shape[0]] * (-1.0 if flip else 1.0)
    return (space.low + (own + 1) / 2 * (space.high - space.low)).astype(space.dtype)


def _key(task: Mapping[str, Any]) -> str:
    """What an environment may be used for again: tasks that set the same attributes, so that none is left over."""
    return json.dumps([task["make"], task["options"], task["wrappers"], sorted(task["physics"])])


def truncate(arrays: Arrays, row: int) -> None:
    """Record a step without effect: no reward, the same observation, the episode truncated."""
    arrays["after"][row] = arrays["shown"][row]
    arrays["reward"][row], arrays["terminated"][row], arrays["truncated"][row] = 0.0, False, True
    arrays["success"][row] = False
    arrays["episode"][row] += 1


def finite(name: str, value: Any) -> NDArray[Any]:
    """Numbers as float32, if they are finite."""
    with np.errstate(over="ignore"):
        kept = np.asarray(value, np.float32)
    if not np.isfinite(kept).all():
        bad = kept[~np.isfinite(kept)].flat[0]
        raise BadData(f"{name}: wanted finite numbers, got {bad}")
    return kept


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BadData) else f"raised {type(error).__name__}: {error}"


def _pad(row: NDArray[Any], obs: Any) -> None:
    """Write an observation into a row that may be larger, padded with zeros."""
    value = np.asarray(obs)
    if value.shape == row.shape:
        row[...] = value
    else:
        row[...] = 0
        row[tuple(slice(0, n) for n in value.shape)] = value


def make(task: Mapping[str, Any]) -> Any:
    """The environment of a task, wrapped: `minatar:GAME`, `meta-world:TASK`, `atari:GAME`, `module:function`, or a
    registered Gymnasium id. Goal-conditioned dict observations become vectors.
    """
    env = _made(task["make"], task["options"])
    for wrapper in task["wrappers"]:
        try:
            env = _named(wrapper)(env)
        except Exception as error:
            raise BadWrapper(
                f"wrappers: wanted {wrapper} around the environment, got {type(error).__name__}: {error}"
            ) from error
    return GoalVectors(env) if shows_goals(env) else env


def _made(name: str, options: Mapping[str, Any]) -> Any:
    kind, colon, rest = name.partition(":")
    if colon and kind in MAKERS:
        return MAKERS[kind](rest, **options)
    if colon and rest.isidentifier():
        return _named(name)(**options)
    import gymnasium

    return gymnasium.make(name, **options)


def _named(place: str) -> Any:
    """What `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def set_physics(env: Any, physics: Mapping[str, float]) -> None:
    """Set attributes of an environment; it must have them."""
    for name, value in physics.items():
        if not hasattr(env.unwrapped, name):
            raise ValueError(f"physics.{name}: wanted an attribute of {type(env.unwrapped).__name__}, got none")
        setattr(env.unwrapped, name, value)


def serve(fd: int, number: int, parent: int) -> None:
    """Be worker `number`: step its rows, or start those named on stdin, whenever `asked` changes; set `answered`, and
    write the failures, if there are any, to stdout as JSON. End when the parent is gone.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of environments goes to stderr: stdout is for answers only
    layout = json.loads(sys.stdin.readline())
    arrays = views(mmap.mmap(fd, nbytes(layout)), layout)
    slots, mine = Slots(arrays), range(number, len(arrays["reward"]), len(arrays["asked"]))
    asked, answered = Word(arrays["asked"], number), Word(arrays["answered"], number)
    seen = answered.get()
    while os.getppid() == parent:
        if not asked.wait(seen, ALIVE):
            continue
        seen = asked.get()
        begins = arrays["begins"][number]
        failures = slots.begin(json.loads(sys.stdin.readline())) if begins else slots.step(mine)
        arrays["failures"][number] = len(failures)
        answered.set(seen)
        if failures:
            answers.write(json.dumps(failures) + "\n")


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
