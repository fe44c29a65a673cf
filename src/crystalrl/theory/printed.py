"""The numbers of the paper's result tables as printed (`printed.toml`), and what the paper derives from them."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

SEEDS = 50
"""Seeds of every mean and standard deviation of the paper."""
SHARES = ("%", "pp", "% of human")
"""Units that a study stores as fractions."""


@dataclass(frozen=True, slots=True)
class Number:
    """A printed number, with its standard deviation if there is one."""

    value: float
    spread: float | None = None

    @property
    def pair(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        if self.spread is None:
            raise ValueError(f"pair: wanted a number with a standard deviation, got {self.value}")
        return self.value, self.spread


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table: where it stands in the paper's source, and its numbers by metric."""

    line: int
    numbers: Mapping[str, Number]
    tested: tuple[float, ...] = ()
    """Values that a sensitivity study tested."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results."""

    title: str
    place: str
    rows: Mapping[str, Line]
    units: Mapping[str, str]
    steps: Mapping[str, float]
    """Metric → the last printed digit."""
    study: str = ""
    """The study that measures it on the paper's own tasks; empty: none."""
    part: str = ""
    """The table of this study."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A number that the paper derives from its tables."""

    says: str
    line: int
    value: float
    step: float
    unit: str
    how: tuple[str, ...]
    """Operation, table, row, other row, metric; for `span`: operation, table, row, metric, other metric."""

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest result of numbers that are printed like those of the table."""
        table, operands = tables()[self.how[1]], _operands(self.how)
        ends = [_ends(table.rows[row].numbers[metric], table.steps[metric]) for row, metric in operands]
        results = [HOW[self.how[0]](a, b) for a, b in itertools.product(*ends)]
        return min(results), max(results)

    @property
    def exact(self) -> float:
        """The result of the numbers as printed."""
        table, (first, second) = tables()[self.how[1]], _operands(self.how)
        return HOW[self.how[0]](*(table.rows[row].numbers[metric] for row, metric in (first, second)))

    @property
    def follows(self) -> bool:
        """Whether the printed result can be one of numbers that are printed like those of the table."""
        low, high = self.range
        return low - self.step / 2 <= self.value + 1e-9 and self.value - 1e-9 <= high + self.step / 2


def _operands(how: tuple[str, ...]) -> tuple[tuple[str, str], tuple[str, str]]:
    """(row, metric) of both numbers."""
    if how[0] == "span":
        return (how[2], how[3]), (how[2], how[4])
    return (how[2], how[4]), (how[3], how[4])


def _ends(number: Number, step: float) -> list[Number]:
    """The extreme numbers that are printed like this one."""
    if number.spread is None:
        return [Number(number.value + sign * step / 2) for sign in (-1, 1)]
    signs = itertools.product((-1, 1), repeat=2)
    return [Number(number.value + a * step / 2, number.spread + b * step / 2) for a, b in signs]


def _effect(a: Number, b: Number) -> float:
    """Cohen's d of two groups of equal size."""
    return float((a.value - b.value) / ((a.pair[1] ** 2 + b.pair[1] ** 2) / 2) ** 0.5)


HOW: dict[str, Callable[[Number, Number], float]] = {
    "difference": lambda a, b: a.value - b.value,
    "span": lambda a, b: a.value - b.value,
    "gain": lambda a, b: 100 * (a.value / b.value - 1),
    "reduction": lambda a, b: 100 * (1 - a.value / b.value),
    "loss": lambda a, b: 100 * (1 - (100 - a.value) / (100 - b.value)),
    "ratio": lambda a, b: a.value / b.value,
    "effect": _effect,
}


@cache
def tables() -> dict[str, Table]:
    """The tables by name, in the paper's order."""
    return {name: _table(values) for name, values in _stored().items() if name != "derived"}


@cache
def derived() -> tuple[Derived, ...]:
    """The derived numbers, in the paper's order of summary, abstract and text."""
    return tuple(Derived(**{**one, "how": tuple(one["how"])}) for one in _stored()["derived"]["rows"])


def fractions(name: str) -> dict[str, dict[str, float]]:
    """Row → metric → number of a table, in the unit of a study: the metrics that are shares."""
    table = tables()[name]
    return {
        row: {
            metric: round(number.value / 100, 6)
            for metric, number in line.numbers.items()
            if table.units[metric] in SHARES
        }
        for row, line in table.rows.items()
    }


def _stored() -> dict[str, Any]:
    return tomllib.loads((resources.files("crystalrl.theory") / "printed.toml").read_text(encoding="utf-8"))


def _table(values: Mapping[str, Any]) -> Table:
    rows = {name: _line(row) for name, row in values["rows"].items()}
    return Table(**{**values, "rows": rows})


def _line(values: Mapping[str, Any]) -> Line:
    numbers = {name: value for name, value in values.items() if name not in ("line", "tested")}
    read = {name: Number(*(value if isinstance(value, list) else [value])) for name, value in numbers.items()}
    return Line(values["line"], read, tuple(values.get("tested", ())))
