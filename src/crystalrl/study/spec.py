"""What to run: one dataclass for Python, TOML files and the command line."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from crystalrl.suites.tasks import Sequence as TaskSequence

try:
    import tyro
except ModuleNotFoundError:  # only the command line needs it
    SEEDS: Any = None
    SUITE: Any = None
else:
    SUITE = tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="SUITE",
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda value: [value],
    )
    SEEDS = tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="FIRST:STOP,…",
        instance_from_str=lambda words: parse_seeds(words[0]),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(map(str, value))],
    )

Value = bool | int | float | str
Choice = Value | Sequence[Value]
"""One value, or several that are all run: as lanes of one run if the setting may differ between lanes."""

SECTIONS = ("params", "method_params", "agent_params")


def parse_seeds(text: str | int | Sequence[int]) -> tuple[int, ...]:
    """Seeds from "0:16", "3", "0,2,5" or "0:4,1000:1004", or from a list."""
    if isinstance(text, int):
        return (text,)
    if not isinstance(text, str):
        return tuple(text)
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, _, stop = part.partition(":")
            some = range(int(first), int(stop)) if stop else [int(first)]
            seeds += some
            if not some:
                raise ValueError
    except ValueError:
        raise ValueError(f"seeds: wanted a form such as 0:16 or 0,2,5, got {text!r}") from None
    return tuple(seeds)


@dataclass(frozen=True)
class RunFields:
    """An experiment on one suite: agent, memory, method and seeds."""

    suite: tyro.conf.Positional[Annotated[str | TaskSequence, SUITE]] = "nav-8"
    """Sequence of tasks, such as nav-8, reach-8, drift-10, cartpole-4, gym:HalfCheetah-v5; see `crystalrl list`."""
    agent: str = "dqn"
    """Agent, such as dqn or sac; see `crystalrl list`."""
    memory: str = "uniform"
    """Memory, such as uniform or crystal; see `crystalrl list`."""
    preset: str = ""
    """A named configuration of the memory, if it has any."""
    method: str = "none"
    """Method that protects old tasks in addition to the memory."""
    seeds: Annotated[tuple[int, ...], SEEDS] = (0,)
    """Seeds, such as 0:16 or 0,2,5; each is a lane."""
    steps: int = 12_000
    """Environment steps per task and lane, summed over its environments."""
    capacity: int = 1_000
    """Capacity of the memory in experiences, per lane."""
    budget_mb: float = 0.0
    """Megabytes for memory and method, per lane; determines the capacity. 0: use `capacity`."""
    batch: int = 128
    """Batch size of an update."""
    envs: int = 8
    """Parallel environments per lane."""
    updates: float = 0.0
    """Updates per environment step, such as 1 or .25. 0: one update per step of all environments of a lane."""
    warmup: int = 200
    """Environment steps before the first update."""
    epsilon: float = 0.1
    """Final share of random actions, after a linear decrease from 1."""
    explore: float = 0.3
    """Share of each task over which the share of random actions decreases."""
    random_steps: int = 0
    """Environment steps at the start of each task in which all actions are random; the decrease follows them."""
    reward_scale: float = 1.0
    """Factor of all rewards that the agent learns from; scores are not scaled."""
    episodes: int = 32
    """Test episodes per task, lane and evaluation."""
    points: int = 10
    """Points of the learning curve per task."""
    lanes: int = 0
    """Maximum number of learners that are trained together in one run; 0: all that are alike."""
    scratch: bool = False
    """Train a new agent on every stage separately: the reference for forward transfer."""
    order: int = 0
    """Order of the tasks: 0 is the suite's own, others are seeded permutations of it."""
    orders: int = 1
    """Number of orders to run with every seed, starting with order 0."""
    grid: str = "product"
    """How listed values are combined: all combinations (product), or one changed at a time from the first of each
    (each).
    """
    params: tyro.conf.Suppress[Mapping[str, Choice]] = field(default_factory=dict)
    """Settings of the memory."""
    method_params: tyro.conf.Suppress[Mapping[str, Choice]] = field(default_factory=dict)
    agent_params: tyro.conf.Suppress[Mapping[str, Choice]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSpec(RunFields):
    """`RunFields` with validated numbers; `registry.check` validates the names."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name}: wanted a whole number ≥ {least}, got {value!r}")
        if not 0 <= self.updates < float("inf"):
            raise ValueError(f"updates: wanted a number ≥ 0, got {self.updates!r}")
        if not 0 < self.reward_scale < float("inf"):
            raise ValueError(f"reward_scale: wanted a number > 0, got {self.reward_scale!r}")
        if self.reward_scale != 1 and self.method == "her":
            raise ValueError(f"reward_scale: wanted 1 with her, which recomputes rewards, got {self.reward_scale!r}")
        for name in ("epsilon", "explore"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: wanted a number in [0, 1], got {getattr(self, name)!r}")
        if not self.seeds or min(self.seeds) < 0:
            raise ValueError(f"seeds: wanted at least one, each ≥ 0, got {list(self.seeds)}")
        repeated = sorted({seed for seed in self.seeds if self.seeds.count(seed) > 1})
        if repeated:
            raise ValueError(f"seeds: wanted each once, got {repeated} more than once")
        if self.order and self.orders > 1:
            raise ValueError(f"order: wanted 0 where several orders are run ({self.orders}), got {self.order}")
        if self.grid not in GRIDS:
            raise ValueError(unknown("grid", self.grid, GRIDS))
        if not 0 <= self.budget_mb < float("inf"):
            raise ValueError(f"budget_mb: wanted a number ≥ 0, got {self.budget_mb!r}")
        if self.steps < self.envs:
            raise ValueError(f"steps: wanted at least one per environment ({self.envs}), got {self.steps}")
        for task in self.suite.tasks if isinstance(self.suite, TaskSequence) else ():
            if 0 < task.steps < self.envs:
                wanted = f"wanted at least one per environment ({self.envs})"
                raise ValueError(f"tasks.{task.name}.steps: {wanted}, got {task.steps}")

    def cells(self) -> dict[str, RunSpec]:
        """Everything to run: each variant in each order, under a label that tells them apart."""
        if self.orders == 1 or self.scratch:
            return self.variants()
        return {
            f"{label} order={order}".strip(): replace(spec, order=order, orders=1)
            for label, spec in self.variants().items()
            for order in range(self.orders)
        }

    def variants(self) -> dict[str, RunSpec]:
        """Specs with single values, from the listed ones: all combinations, or one changed at a time."""
        choices = [
            [(section, name, value) for value in given]
            for section in SECTIONS
            for name, given in getattr(self, section).items()
            if isinstance(given, Sequence) and not isinstance(given, str)
        ]
        first = tuple(choice[0] for choice in choices)
        out = {}
        for combination in product(*choices) if self.grid == "product" else _each(choices):
            sections: dict[str, Any] = {section: dict(getattr(self, section)) for section in SECTIONS}
            for section, name, value in combination:
                sections[section][name] = value
            shown = [one for one in combination if self.grid == "product" or one not in first]
            label = " ".join(f"{name}={value}" for _, name, value in shown)
            out[label] = replace(self, **sections)
        return out


_LEAST = {"steps": 1, "capacity": 1, "batch": 1, "envs": 1, "warmup": 0, "episodes": 1, "points": 1}
_LEAST |= {"order": 0, "orders": 1, "random_steps": 0, "lanes": 0}
GRIDS = ("product", "each")


def _each(choices: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The first value of every choice; then each other value of a choice with the first values of the rest."""
    first = tuple(choice[0] for choice in choices)
    return [first, *((*first[:i], other, *first[i + 1 :]) for i, c in enumerate(choices) for other in c[1:])]


def spec_from(values: Mapping[str, Any]) -> RunSpec:
    """A spec from TOML values; an unknown key is an error that suggests the closest known one."""
    known = {f.name for f in fields(RunSpec)}
    for name in values:
        if name not in known:
            raise ValueError(unknown("field", name, known))
    given = dict(values)
    if "seeds" in given:
        given["seeds"] = parse_seeds(given["seeds"])
    return RunSpec(**given)


def spec_values(spec: RunSpec) -> dict[str, Any]:
    """TOML values of a spec: the names, and everything that differs from the defaults. User-defined tasks are left out:
    they belong to the whole table.
    """
    default = asdict(RunSpec())
    named = {"suite", "agent", "memory", "method", "seeds", "steps"}
    values = {name: value for name, value in asdict(spec).items() if name in named or value != default[name]}
    if isinstance(spec.suite, TaskSequence):
        del values["suite"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The values of a TOML file; an error names the file, and the line if the text is not TOML."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: wanted a TOML file, got no such file") from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise ValueError(f"{path}: wanted TOML, got an error: {error}") from error


def to_toml(values: Mapping[str, Any], path: str = "") -> str:
    """Nested mappings of numbers, strings, booleans, lists and lists of mappings as TOML."""
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping) or _are_tables(value)}
    lines = [f"{_key(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in values.items() if k not in tables]
    parts = ["\n".join(lines)] if lines else []
    for name, table in tables.items():
        inner = f"{path}.{_key(name)}" if path else _key(name)
        if isinstance(table, Mapping):
            parts.append(f"[{inner}]\n{to_toml(table, inner)}")
        else:
            parts += [f"[[{inner}]]\n{to_toml(each, inner)}" for each in table]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def unknown(what: str, got: str, known: Sequence[str] | set[str]) -> str:
    """The error message for an unknown name, with the closest known one."""
    from difflib import get_close_matches

    near = get_close_matches(got, list(known), n=1, cutoff=0.4)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{what}: wanted one of {', '.join(sorted(known))}, got {got!r}{hint}"
