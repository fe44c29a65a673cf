"""Figures of the crystallization law, as PNG or SVG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.theory import Crystallization, Thresholds
from crystalrl.theory.samplers import Comparison

COLOURS = {"liquid": "#8ecae6", "glass": "#ffe8a3", "crystal": "#d9b8f0"}
SUFFIXES = (".png", ".svg")


def draw_law(law: Crystallization, c0: float, thresholds: Thresholds, end: float, path: Path) -> None:
    """From c0 until `end`: mean ± standard deviation over the phase bands, and the density of c at several times."""
    figure, (left, right) = _figure(2)
    t = np.linspace(0, end, 160)
    mean = np.asarray(law.mean(t, c0))
    deviation = np.sqrt(np.asarray(law.variance(t, c0)))
    _bands(left, thresholds)
    left.plot(t, mean, color="black", lw=1.5)
    left.fill_between(
        t, np.maximum(mean - deviation, 0), np.minimum(mean + deviation, 1), color="black", alpha=0.25, lw=0
    )
    left.set(xlabel="t (consolidations)", ylabel="c", ylim=(0, 1), title="mean ± standard deviation")
    _densities(right, law, c0, end)
    _save(figure, path)


def _densities(axis: Any, law: Crystallization, c0: float, end: float) -> None:
    """Densities scaled to a common peak (they differ by orders of magnitude); without noise, a line at the mean."""
    times = end * np.array([0.02, 0.05, 0.12, 0.25, 0.5, 1.0])
    for shade, t in zip(np.linspace(0.15, 0.85, times.size), times, strict=True):
        mean, deviation = float(law.mean(t, c0)), float(np.sqrt(law.variance(t, c0)))
        if deviation < 1e-12:
            axis.axvline(mean, color=str(1 - shade), label=f"t = {t:.3g}")
            continue
        x = np.unique(np.clip(mean + deviation * np.linspace(-5, 5, 121), 1e-6, 1 - 1e-6))
        density = np.asarray(law.pdf(x, t, c0))
        axis.plot(x, density / density.max(), color=str(1 - shade), lw=1.3, label=f"t = {t:.3g}")
    axis.set(xlabel="c", ylabel="density / peak", xlim=(0, 1), title="law of c over time")
    axis.legend(fontsize=7, frameon=False)


def draw_utilities(thresholds: Thresholds, path: Path) -> None:
    """Mean paths by utility: without interference utility sets only the speed, with interference also the level."""
    figure, axes = _figure(2)
    t = np.linspace(0, 200, 120)
    for axis, interference in zip(axes, (0.0, 1.0), strict=True):
        _bands(axis, thresholds)
        for utility in (0.05, 0.1, 0.25, 0.5, 1.0):
            law = Crystallization(utility=utility, interference=interference)
            axis.plot(t, np.asarray(law.mean(t, 0.0)), lw=1.4, label=f"U = {utility:g}")
        axis.set(xlabel="t (consolidations)", ylabel="mean c", ylim=(0, 1), title=f"I = {interference:g}")
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    _save(figure, path)


def draw_forgetting(path: Path) -> None:
    """Probability that a crystal falls below τ_L under sustained interference, against its utility."""
    figure, (left, right) = _figure(2)
    utility = np.linspace(0.03, 0.12, 37)
    for sigma in (0.005, 0.01, 0.02):
        laws = [Crystallization(utility=float(u), interference=1.0, sigma=sigma) for u in utility]
        left.semilogy(utility, [float(law.stationary().cdf(0.3)) for law in laws], label=f"σ = {sigma:g}")
        right.semilogy(utility, [10 ** min(float(law.log10_mean_first_passage(0.3, 0.71)), 30) for law in laws])
    left.set(xlabel="utility", ylabel="long-run P[c < .3]", ylim=(1e-12, 1.5), title="below at a late time")
    right.set(xlabel="utility", ylabel="consolidations", ylim=(50, 1e16), title="mean time to the first fall below .3")
    left.legend(fontsize=8, frameon=False)
    _save(figure, path)


def draw_samplers(measured: Mapping[str, Sequence[Comparison]], path: Path) -> None:
    """Mean and variance of each sampler at t = 50, against the step Δt."""
    figure, (left, right) = _figure(2)
    for name, rows in measured.items():
        steps = [row.dt for row in rows]
        left.semilogx(steps, [row.mean_error for row in rows], "o-", ms=3, label=name)
        right.loglog(steps, [max(row.variance_ratio, 1e-3) for row in rows], "o-", ms=3)
    left.set(xlabel="Δt", ylabel="mean − exact", title="mean at t = 50")
    right.set(xlabel="Δt", ylabel="variance / exact", title="variance at t = 50")
    left.legend(fontsize=8, frameon=False)
    _save(figure, path)


def _figure(columns: int, width: float = 10.0, height: float = 3.6) -> tuple[Any, Any]:
    """An Agg figure with one row of axes; no display, no global state but the settings for reproducible SVG."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "crystalrl", "svg.fonttype": "none"})
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, np.atleast_1d(figure.subplots(1, columns))


def _bands(axis: Any, thresholds: Thresholds) -> None:
    edges = {"liquid": (0, thresholds.tau_L), "glass": (thresholds.tau_L, thresholds.tau_C)}
    edges |= {"crystal": (thresholds.tau_C, 1)}
    for name, (low, high) in edges.items():
        axis.axhspan(low, high, color=COLOURS[name], alpha=0.5, lw=0)
        axis.text(
            0.99, (low + high) / 2, name, transform=axis.get_yaxis_transform(), ha="right", va="center", fontsize=8
        )


def _save(figure: Any, path: Path) -> None:
    """Write PNG or SVG by suffix; the same input gives the same bytes."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"figure: wanted a file that ends in {' or '.join(SUFFIXES)}, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=110, metadata=metadata)
