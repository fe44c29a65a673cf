"""A chart: its data and how to draw it. Pages draw it with a script, files and papers with matplotlib.

chart = study_charts.course(load_results("runs/mine"))
chart                      # in a notebook: the interactive chart
chart.frame()              # its data
static.draw(chart)         # a matplotlib figure
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pandas import DataFrame

Kind = Literal["lines", "intervals", "matrix", "areas", "points", "flow"]
Columns = Mapping[str, NDArray[Any]]
COLUMNS: dict[Kind, tuple[str, ...]] = {
    "lines": ("panel", "row", "seed", "x", "y", "low", "high"),
    "intervals": ("panel", "row", "value", "low", "high"),
    "matrix": ("panel", "line", "column", "value"),
    "areas": ("panel", "row", "x", "y"),
    "points": ("x", "y"),
    "flow": ("panel", "source", "target", "value"),
}
"""Columns that a chart of each kind has. panel: one of several small charts; row: what has a colour; seed: −1 for means
over seeds, with an interval. Points have further columns: to colour them by, and to show on a click."""
HEIGHT = 480
"""Pixels of a chart in a notebook."""
DIGITS = 6
"""Significant digits of the numbers in a page."""


@dataclass(frozen=True)
class Chart:
    """Invariant: `data` has the columns of its kind, all of one length."""

    name: str
    """For files and links, such as learning-curves."""
    title: str
    about: str
    """What it shows, in a sentence or two."""
    kind: Kind
    data: Columns
    x: str = ""
    """Label of the horizontal axis."""
    y: str = ""
    limits: tuple[float, float] | None = None
    """Of y, or of the value that a colour or a position shows; None: those of the data."""
    starts: tuple[float, ...] = ()
    """Positions x at which a task begins."""
    colours: tuple[str, ...] = ()
    """Columns that points may be coloured by."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """More for the script, such as `own`: rows have their own colours, not those of the study."""

    def __post_init__(self) -> None:
        missing = [name for name in COLUMNS[self.kind] if name not in self.data]
        if missing:
            raise ValueError(f"data: wanted the columns {', '.join(COLUMNS[self.kind])}, got none of {missing}")
        if len({len(column) for column in self.data.values()}) > 1:
            raise ValueError(f"data: wanted columns of one length, got { {n: len(c) for n, c in self.data.items()} }")

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not len(next(iter(self.data.values())))

    def frame(self) -> DataFrame:
        """The data as a DataFrame."""
        from pandas import DataFrame

        return DataFrame(dict(self.data))

    def csv(self) -> str:
        """The data as CSV, in full precision."""
        out = io.StringIO()
        self.frame().to_csv(out, index=False)
        return out.getvalue()

    def spec(self) -> dict[str, Any]:
        """Everything that the script needs to draw it, as JSON values."""
        named = ("name", "title", "kind", "x", "y", "limits", "starts", "colours", "options")
        values: dict[str, Any] = {name: getattr(self, name) for name in named}
        return values | {"data": {name: encoded(column) for name, column in self.data.items()}}

    def _repr_html_(self) -> str:
        """The interactive chart, for a notebook: in a frame of its own, so that it shares nothing with other cells."""
        plot = '<figure data-chart="0"><div class="plot"></div><div class="tools"></div></figure>'
        words = f'<h3>{escape(self.title)}</h3>{plot}<p class="about">{escape(self.about)}</p>'
        data = f'<script type="application/json" class="charts">{as_json([self.spec()])}</script>'
        style, script = f"<style>{asset('page.css')}</style>", f"<script>{asset('page.js')}</script>"
        inside = (
            f'<!doctype html><meta charset="utf-8">{style}<body class="crystalrl"><main>{words}</main>{data}{script}'
        )
        return f'<iframe srcdoc="{escape(inside)}" style="width:100%;height:{HEIGHT}px;border:0"></iframe>'


def encoded(column: NDArray[Any]) -> dict[str, Any] | list[Any]:
    """A column as JSON: numbers, null for NaN; text as its distinct values and a list of their places."""
    values = np.asarray(column)
    if values.dtype.kind in "UO":
        known: dict[str, int] = {}
        places = [known.setdefault(str(value), len(known)) for value in values.tolist()]
        return {"words": list(known), "at": places}
    if values.dtype.kind in "iub":
        return [int(value) for value in values.tolist()]
    return [rounded(value) for value in values.tolist()]


def rounded(value: float) -> float | int | None:
    """A number with few digits, for a page; None where there is none."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def as_json(values: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def escape(text: object) -> str:
    """Text for HTML."""
    from html import escape as escaped

    return escaped(str(text))


def asset(name: str) -> str:
    """A file of the page: its style or its script."""
    return (resources.files("crystalrl.report") / "assets" / name).read_text(encoding="utf-8")


def columns(kind: Kind, parts: Sequence[Mapping[str, Any]], more: tuple[str, ...] = ()) -> Columns:
    """The columns of a chart from parts with numbers, words or arrays; in each part they are brought to one length."""
    names = (*COLUMNS[kind], *more)
    joined: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for part in parts:
        size = max((np.size(value) for value in part.values() if np.ndim(value)), default=1)
        for name in names:
            given = part.get(name, DEFAULTS.get(name, np.nan))
            joined[name].append(np.broadcast_to(_array(given), (size,)))
    return {name: np.concatenate(found) if found else np.empty(0, object) for name, found in joined.items()}


DEFAULTS: dict[str, Any] = {"panel": "", "row": "", "seed": -1}


def _array(value: Any) -> NDArray[Any]:
    found = np.asarray(value)
    return found.astype(object) if found.dtype.kind in "US" else found
