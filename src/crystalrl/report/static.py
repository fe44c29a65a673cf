"""Charts as matplotlib figures, for papers and documentation: SVG or PNG files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.report.chart import Chart

COLOURS = ("#1b6ca8", "#c8374b", "#b97a00", "#2f7d4c", "#7d5ba6", "#6a6a6a", "#12868a", "#a5540f", "#2b3a55", "#b04a75")
OWN = {"liquid": "#5fb3d9", "glass": "#9a97c9", "crystal": "#17458f"}
SUFFIXES = (".png", ".svg")
MOST = 24
"""Panels of a figure; further ones are left out, and its title says so."""


def write(chart: Chart, path: Path) -> Path:
    """Draw a chart to an SVG or PNG file; the same chart gives the same bytes."""
    from matplotlib import rc_context

    if path.suffix not in SUFFIXES:
        raise ValueError(f"figure: wanted a file that ends in .svg or .png, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "crystalrl", "svg.fonttype": "none"}):
        draw(chart).savefig(path, dpi=150, metadata=metadata)
    return path


def draw(chart: Chart) -> Any:
    """A matplotlib figure. matplotlib is imported here, so that commands without figures start faster."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(chart.data["panel"].tolist())) if "panel" in chart.data else [""]
    shown = panels[:MOST]
    across = min(len(shown), 1 if chart.kind in ("intervals", "flow") and len(shown) < 2 else 3)
    high = -(-len(shown) // across)
    width, height = _size(chart, across)
    figure = Figure(figsize=(width, height * high), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(high, across, squeeze=False).flatten()
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    for axis, panel in zip(axes, shown, strict=False):
        _DRAW[chart.kind](axis, chart, _panel(chart, panel))
        left_out = f" (first {MOST} of {len(panels)})" if panel == shown[-1] and len(panels) > MOST else ""
        axis.set_title(f"{panel}{left_out}", fontsize=9)
        axis.tick_params(labelsize=7)
    _legend(figure, axes[0])
    return figure


def _size(chart: Chart, across: int) -> tuple[float, float]:
    """Width of the figure and height of a line of panels, in inches."""
    if chart.kind == "intervals":
        return 7.4 if across == 1 else 10.0, 0.7 + 0.24 * len(set(chart.data["row"].tolist()))
    if chart.kind == "points":
        return 6.5, 5.5
    if chart.options.get("rows"):
        return 8.0, 2.2 + 0.26 * len(set(chart.data["line"].tolist()))
    return (7.4, 3.2) if across == 1 else (3.4 * across, 2.7)


def _panel(chart: Chart, panel: str) -> dict[str, Any]:
    if "panel" not in chart.data:
        return dict(chart.data)
    mine = chart.data["panel"] == panel
    return {name: column[mine] for name, column in chart.data.items()}


def _by_row(chart: Chart, data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Name, colour and mask of every row."""
    names = list(dict.fromkeys(chart.data["row"].tolist()))
    for place, name in enumerate(names):
        mine = data["row"] == name
        if mine.any():
            own = OWN.get(name) if chart.options.get("own") else None  # a row of a study may have any name
            yield name, own or COLOURS[place % len(COLOURS)], mine


def _lines(axis: Any, chart: Chart, data: Mapping[str, Any]) -> None:
    dots = chart.options.get("dots")
    for place, (name, colour, mine) in enumerate(_by_row(chart, data)):
        mean = mine & (data["seed"] < 0)
        x, y, low, high = (data[column][mean].astype(float) for column in ("x", "y", "low", "high"))
        style: dict[str, Any] = {
            "linestyle": ("-", "--", ":")[min(place // len(COLOURS), 2)],
            "marker": "o" if dots else "",
        }
        if name == chart.options.get("marked"):
            style = {"linestyle": "", "marker": "o", "markersize": 2, "zorder": 3}
        axis.plot(x, y, color=colour, label=name or None, linewidth=1.2, **style)
        axis.fill_between(x, low, high, color=colour, alpha=0.14, linewidth=0)
        if dots:
            axis.vlines(x, low, high, color=colour, alpha=0.5, linewidth=1)
    if (
        chart.options.get("free")
        and not chart.options.get("linear")
        and len(data["x"])
        and np.min(data["x"]) > 0
        and np.ptp(data["x"]) > 19 * np.min(data["x"])
    ):
        axis.set_xscale("log")
    if chart.options.get("counts"):
        axis.set_ylim(0, 1 if axis.get_ylim()[1] < 0.1 and not np.any(data["y"]) else None)
    if chart.limits and not chart.options.get("free"):
        margin = 0.03 * (chart.limits[1] - chart.limits[0])
        axis.set_ylim(chart.limits[0] - margin, chart.limits[1] + margin)
    _finish(axis, chart)


def _finish(axis: Any, chart: Chart) -> None:
    whole = chart.kind in ("lines", "areas") and axis.get_xscale() == "linear" and len(chart.data["x"])
    if whole and (chart.options.get("whole") or not np.mod(chart.data["x"].astype(float), 1).any()):
        axis.xaxis.get_major_locator().set_params(integer=True)
        if not np.ptp(chart.data["x"].astype(float)):
            axis.set_xlim(chart.data["x"][0] - 0.6, chart.data["x"][0] + 0.6)
    low, high = axis.get_xlim()
    for start in chart.starts:
        if low < start < high:
            axis.axvline(start, color="#888888", linewidth=0.6, linestyle=":")
    axis.set_xlabel(chart.x, fontsize=8)
    axis.set_ylabel(chart.y, fontsize=8)
    axis.grid(alpha=0.25)


def _areas(axis: Any, chart: Chart, data: Mapping[str, Any]) -> None:
    parts = list(_by_row(chart, data))
    x = np.unique(data["x"])
    heights = []
    for _, _, mine in parts:
        known = dict(zip(data["x"][mine].tolist(), data["y"][mine].tolist(), strict=True))
        heights.append([known.get(at, 0.0) for at in x.tolist()])
    if heights:
        axis.stackplot(
            x, np.nan_to_num(np.array(heights, float)), labels=[p[0] for p in parts], colors=[p[1] for p in parts]
        )
    _finish(axis, chart)


def _intervals(axis: Any, chart: Chart, data: Mapping[str, Any]) -> None:
    names = []
    for place, (name, colour, mine) in enumerate(_by_row(chart, data)):
        value, low, high = (float(data[column][mine][0]) for column in ("value", "low", "high"))
        axis.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.35)
        axis.plot(value, place, "o", color=colour, markersize=5)
        names.append(name)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    if chart.limits:
        axis.set_xlim(chart.limits[0], 1.02 * chart.limits[1])
    if chart.options.get("zero"):
        axis.axvline(0, color="#444444", linewidth=0.8)
    axis.set_xlabel(chart.x, fontsize=8)
    axis.grid(axis="x", alpha=0.25)


def _matrix(axis: Any, chart: Chart, data: Mapping[str, Any]) -> None:
    down, across = (list(dict.fromkeys(data[name].tolist())) for name in ("line", "column"))
    if chart.options.get("up"):
        down = sorted(down, reverse=True)
    if chart.options.get("rows"):
        across = down
    grid = np.full((len(down), len(across)), np.nan)
    for line, column, value in zip(data["line"].tolist(), data["column"].tolist(), data["value"].tolist(), strict=True):
        grid[down.index(line), across.index(column)] = value
    low, high = chart.limits or (np.nanmin(grid), np.nanmax(grid))
    image = axis.imshow(
        grid, vmin=low, vmax=high, cmap="RdBu" if chart.options.get("diverging") else "viridis", aspect="auto"
    )
    long = any(len(str(name)) > 3 for name in across)
    every = max(1, len(across) // (4 if long and not isinstance(across[0], str) else 12)), max(1, len(down) // 16)
    turned = 40 if any(isinstance(name, str) for name in across) else 0
    axis.set_xticks(
        range(0, len(across), every[0]), across[:: every[0]], rotation=turned, ha="right" if turned else "center"
    )
    axis.set_yticks(range(0, len(down), every[1]), down[:: every[1]])
    axis.set_xlabel(chart.x, fontsize=8)
    axis.set_ylabel(chart.y, fontsize=8)
    axis.figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=7)


def _points(axis: Any, chart: Chart, data: Mapping[str, Any]) -> None:
    name = chart.colours[0] if chart.colours else ""
    values = data[name] if name else np.zeros(len(data["x"]))
    if values.dtype.kind == "O":
        for place, word in enumerate(sorted(set(values.tolist()), key=_order)):
            mine = values == word
            colour = OWN.get(word, COLOURS[place % len(COLOURS)])
            axis.scatter(data["x"][mine], data["y"][mine], s=6, color=colour, label=word, linewidth=0)
    else:
        image = axis.scatter(data["x"], data["y"], s=6, c=values.astype(float), cmap="viridis", linewidth=0)
        axis.figure.colorbar(image, ax=axis, label=name, shrink=0.8)
    _finish(axis, chart)


def _order(word: str) -> tuple[int, int, str]:
    """Phases from liquid to crystal, tasks by their numbers."""
    return list(OWN).index(word) if word in OWN else -1, len(word), word


def _flow(axis: Any, chart: Chart, data: Mapping[str, Any]) -> None:
    """Bars of the moves: matplotlib has no diagram of flows between two columns."""
    words = [f"{a} → {b}" for a, b in zip(data["source"], data["target"], strict=True)]
    colours = [OWN.get(source, "#888888") for source in data["source"].tolist()]
    axis.barh(range(len(words)), data["value"].astype(float), color=colours)
    axis.set_yticks(range(len(words)), words, fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel(chart.y or "experiences", fontsize=8)


def _legend(figure: Any, axis: Any) -> None:
    """Next to the panels, so that it covers no data."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, fontsize=7, loc="outside right upper", frameon=False)


_DRAW: dict[str, Callable[[Any, Chart, Mapping[str, Any]], None]] = {
    "lines": _lines, "areas": _areas, "intervals": _intervals, "matrix": _matrix, "points": _points, "flow": _flow,
}  # fmt: skip
