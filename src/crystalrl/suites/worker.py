"""Environments that step on shared arrays: in this process, or as a program of their own that `workers` starts.

Started as a program it must be light and must not share the learner's libraries, so only NumPy is imported here, and
Gymnasium or MinAtar where a task needs them.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Layout = Sequence[tuple[str, Sequence[int], str]]
"""Name, shape and dtype of each shared array."""
ALIGN = 64
FRAMES = 2500
"""Steps after which a MinAtar episode is cut off."""


def nbytes(layout: Layout) -> int:
    """Bytes of all arrays together, each aligned."""
    return sum(_aligned(shape, dtype) for _, shape, dtype in layout)


def views(buffer: Any, layout: Layout) -> dict[str, NDArray[Any]]:
    """The arrays of a buffer."""
    out, at = {}, 0
    for name, shape, dtype in layout:
        out[name] = np.ndarray(tuple(shape), dtype, buffer, at)
        at += _aligned(shape, dtype)
    return out


def _aligned(shape: Sequence[int], dtype: str) -> int:
    return -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // ALIGN) * ALIGN


def reset_seed(base: int, episode: int) -> int:
    """Seed of an episode: a hash of the environment's own seed and the number of the episode."""
    return int(np.random.SeedSequence([base, episode]).generate_state(1)[0] >> 1)


class Slots:
    """The environments of some rows of the arrays.

    Invariant: `shown[row]` is what a row's environment shows now; it is in episode `episode[row]`, whose reset seed is
    a function of the row's base seed and that number, so an episode can be played again from its actions.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.made: dict[tuple[int, str], Any] = {}
        self.now: dict[int, tuple[Any, Mapping[str, Any]]] = {}
        """Row → its environment and the order it serves."""

    def begin(self, orders: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Start rows: {row, task, seed, episode, actions}; the actions are those the episode has already seen."""
        for order in orders:
            row, task = order["row"], order["task"]
            self.arrays["at"][order["worker"]] = row
            key = (row, json.dumps([task["make"], task["options"]]))
            if key not in self.made:
                self.made[key] = make(task)
            env = self.made[key]
            for name, value in task["physics"].items():
                setattr(env.unwrapped, name, value)
            self.now[row] = (env, order)
            self.arrays["episode"][row] = order["episode"]
            self._reset(row)
            for action in order["actions"]:
                taken = np.asarray(action, self.arrays["action"].dtype)
                self._show(row, env.step(self._meant(row, taken))[0])
        return []

    def step(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Take the actions of all rows but idle ones; what went wrong: {row, what}."""
        idle, done, troubles = self.arrays["idle"], self.arrays["done"], []
        for row in rows:
            if idle[row]:
                continue
            self.arrays["at"][self.now[row][1]["worker"]] = row
            try:
                self._step(row)
            except Exception as error:
                troubles.append({"row": row, "what": f"raised {type(error).__name__}: {error}"})
                self._renew(row)
            done[row] = True
        return troubles

    def _step(self, row: int) -> None:
        env, _ = self.now[row]
        obs, reward, terminated, truncated, info = env.step(self._meant(row, self.arrays["action"][row]))
        arrays = self.arrays
        _pad(arrays["after"][row], obs)
        arrays["reward"][row], arrays["terminated"][row], arrays["truncated"][row] = reward, terminated, truncated
        arrays["success"][row] = bool(info.get("success", info.get("is_success", False)))
        if terminated or truncated:
            arrays["episode"][row] += 1
            self._reset(row)
        else:
            _pad(arrays["shown"][row], obs)

    def _renew(self, row: int) -> None:
        """A new environment in the place of one that failed; its last step led nowhere and cut the episode off."""
        cut_off(self.arrays, row)
        order = self.now[row][1]
        del self.made[row, json.dumps([order["task"]["make"], order["task"]["options"]])]
        self.begin([{**order, "episode": int(self.arrays["episode"][row]), "actions": []}])

    def _reset(self, row: int) -> None:
        env, order = self.now[row]
        self._show(row, env.reset(seed=reset_seed(order["seed"], int(self.arrays["episode"][row])))[0])

    def _show(self, row: int, obs: Any) -> None:
        _pad(self.arrays["shown"][row], obs)

    def _meant(self, row: int, action: NDArray[Any]) -> Any:
        """The environment's own action for one of the suite's, which may have more of them and run backwards. Where the
        suite has a box, equal pieces of its first number stand for actions that are counted.
        """
        env, order = self.now[row]
        space = env.action_space
        if hasattr(space, "n"):
            count = int(space.n)
            choice = int(action) % count if not action.shape else min(int((action[0] + 1) / 2 * count), count - 1)
            return count - 1 - choice if order["task"]["flip"] else choice
        own = action[: space.shape[0]] * (-1.0 if order["task"]["flip"] else 1.0)
        return (space.low + (own + 1) / 2 * (space.high - space.low)).astype(space.dtype)


def cut_off(arrays: Arrays, row: int) -> None:
    """A step that led nowhere: no reward, the same observation, the episode truncated."""
    arrays["after"][row] = arrays["shown"][row]
    arrays["reward"][row], arrays["terminated"][row], arrays["truncated"][row] = 0.0, False, True
    arrays["success"][row] = False
    arrays["episode"][row] += 1


def _pad(row: NDArray[Any], obs: Any) -> None:
    """Write an observation into a row that may be larger; the rest is 0."""
    value = np.asarray(obs)
    if value.shape == row.shape:
        row[...] = value
    else:
        row[...] = 0
        row[tuple(slice(0, n) for n in value.shape)] = value


class MinAtar:
    """A MinAtar game (Young and Tian 2019) with Gymnasium's interface, all six actions and sticky ones."""

    class action_space:
        n = 6

    def __init__(self, game: str) -> None:
        from minatar import Environment  # type: ignore[import-untyped, unused-ignore]

        self.game = Environment(game)
        self.observation_shape = tuple(self.game.state_shape())
        self.age = 0

    @property
    def unwrapped(self) -> MinAtar:
        return self

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        self.game.seed(seed % 2**32)
        self.game.last_action, self.age = 0, 0
        self.game.reset()
        return self.game.state(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, ended = self.game.act(action)
        self.age += 1
        return self.game.state(), float(reward), bool(ended), self.age >= FRAMES and not ended, {}


def make(task: Mapping[str, Any]) -> Any:
    """The environment of a task: `minatar:GAME`, `module:function`, or a name that Gymnasium knows."""
    kind, colon, name = task["make"].partition(":")
    if colon and kind == "minatar":
        return MinAtar(name, **task["options"])
    if colon:
        function: Callable[..., Any] = getattr(import_module(kind), name)
        return function(**task["options"])
    import gymnasium

    return gymnasium.make(task["make"], **task["options"])


def serve(fd: int, layout: Layout) -> None:
    """Obey lines of JSON on stdin, answer each with a line on stdout, until stdin ends."""
    answer = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what environments print must not be taken for an answer
    slots = Slots(views(mmap.mmap(fd, nbytes(layout)), layout))
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        troubles = slots.begin(order["begin"]) if "begin" in order else slots.step(order["step"])
        answer.write(json.dumps(troubles) + "\n")


if __name__ == "__main__":
    serve(int(sys.argv[1]), json.loads(sys.argv[2]))
