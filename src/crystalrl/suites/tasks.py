"""A user-defined sequence of tasks: `Sequence([Task(make="CartPole-v1"), …])`, in place of the name of a suite."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class Task:
    """One environment. The score of an episode is (return − low) / (high − low), or 1 for a success."""

    name: str = ""
    make: str = ""
    """A registered Gymnasium id, `module:function`, `minatar:GAME`, `meta-world:TASK` or `atari:GAME`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the constructor."""
    physics: Mapping[str, float] = field(default_factory=dict)
    """Attributes to set in the environment."""
    flip: bool = False
    """Whether actions are mirrored."""
    low: float = 0.0
    high: float = 1.0
    success: bool = False
    """Whether the score is the success that `info` reports, instead of the return."""
    wrappers: tuple[str, ...] = ()
    """`module:callable` each; they are applied to the environment one after another."""
    steps: int = 0
    """Environment steps to train for; 0: those of the run."""
    clip: float = 0.0
    """Largest magnitude of the rewards that the agent learns from; 0: any. Scores count rewards as they are."""
    id: str = ""
    """The id or the name of an earlier task, which this one revisits or redefines; or its own. Empty: the name."""


@dataclass(frozen=True)
class Sequence:
    """Tasks to learn one after another. A task without a name is named by its place and environment."""

    tasks: tuple[Task, ...]
    hidden: bool = False
    """Whether the task id is hidden from the agent."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        for number, task in enumerate(self.tasks, 1):
            if not isinstance(task, Task):
                raise ValueError(f"tasks.{number}: wanted a Task, got {task!r}")
            for problem in problems(task):
                raise ValueError(f"tasks.{task.name or number}.{problem}")
        if not self.tasks:
            raise ValueError("tasks: wanted at least one, got none")
        if not isinstance(self.hidden, bool):
            raise ValueError(f"hidden: wanted true or false, got {self.hidden!r}")
        object.__setattr__(self, "tasks", tuple(_stored(task, k) for k, task in enumerate(self.tasks, 1)))
        self._check_names()

    def _check_names(self) -> None:
        """A repeated name without an id may be a mistake: a task that comes again must say so."""
        known: set[str] = set()
        for task in self.tasks:
            if not task.id and task.name in known:
                raise ValueError(
                    f"tasks.{task.name}.name: wanted a new one, or an id that says which task comes again, got it twice"
                )
            known.add(task.id or task.name)

    @property
    def ids(self) -> tuple[int, ...]:
        """Task id of every stage: the number of its task, in order of first appearance."""
        keys = [task.id or task.name for task in self.tasks]
        number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        return tuple(number[key] for key in keys)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every stage."""
        return tuple(task.name for task in self.tasks)

    def steps(self, otherwise: int) -> tuple[int, ...]:
        """Environment steps of every stage; `otherwise`: those of the run."""
        return tuple(task.steps or otherwise for task in self.tasks)

    def without_steps(self) -> Sequence:
        """The same tasks, all with the steps of the run."""
        return replace(self, tasks=tuple(replace(task, steps=0) for task in self.tasks))

    def values(self) -> dict[str, Any]:
        """TOML values: `hidden`, and for every task what differs from the defaults."""
        default = Task()
        tasks = [
            {
                f.name: _plain(getattr(task, f.name))
                for f in fields(Task)
                if getattr(task, f.name) != getattr(default, f.name)
            }
            for task in self.tasks
        ]
        return {"hidden": self.hidden, "tasks": tasks}

    def __str__(self) -> str:
        return ", ".join(self.names)


def problems(task: Task) -> list[str]:
    """What is wrong with a task, each as "field: wanted X, got Y"."""
    found = [
        f"{name}: wanted {wanted}, got {getattr(task, name)!r}"
        for name, (valid, wanted) in _RULES.items()
        if not valid(getattr(task, name))
    ]
    if not found and not task.success and not task.low < task.high:
        found.append(f"high: wanted more than low ({task.low:g}), got {task.high:g}")
    return found


def named(task: Task, number: int) -> str:
    """The name of a task; without one, it is named by its place and environment."""
    return task.name or f"task {number} ({task.make})"


def _stored(task: Task, number: int) -> Task:
    """The task as a file would give it back: named, with lists in place of tuples."""
    options = {key: _plain(value) for key, value in task.options.items()}
    return replace(
        task, name=named(task, number), options=options, physics=dict(task.physics), wrappers=tuple(task.wrappers)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _is_plain(value: Any) -> bool:
    """Whether a TOML file and a message to a worker can hold a value unchanged."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return not any(isinstance(inner, Mapping) for inner in value) and all(map(_is_plain, value))
    return isinstance(value, (bool, str)) or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_places(value: Any) -> bool:
    listed = isinstance(value, Iterable) and not isinstance(value, (str, Mapping))
    return listed and all(isinstance(one, str) and re.fullmatch(r"[\w.]+:\w+", one) for one in value)


_RULES = {
    "name": (_is_text, "text"),
    "make": (lambda make: _is_text(make) and make != "", "a Gymnasium id or module:function"),
    "options": (
        lambda given: isinstance(given, Mapping) and _is_plain(given),
        "a table of numbers, texts, booleans, lists and tables",
    ),
    "physics": (
        lambda given: isinstance(given, Mapping) and _is_plain(given) and all(map(_is_number, given.values())),
        "a table of numbers",
    ),
    "flip": (_is_flag, "true or false"),
    "low": (_is_number, "a number"),
    "high": (_is_number, "a number"),
    "success": (_is_flag, "true or false"),
    "wrappers": (_are_places, "a list of module:callable"),
    "steps": (lambda steps: isinstance(steps, int) and _is_number(steps) and steps >= 0, "a whole number ≥ 0"),
    "clip": (lambda clip: _is_number(clip) and clip >= 0, "a number ≥ 0"),
    "id": (_is_text, "text"),
}
"""Field → whether a value is valid, and what is wanted."""
