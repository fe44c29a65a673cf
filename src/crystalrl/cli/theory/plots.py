"""Figures. matplotlib is imported inside, so that the rest of the library never needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.cli.theory.options import Show
from crystalrl.theory import Crystallization
from crystalrl.theory.samplers import SAMPLERS, Trial, measure

COLOURS = {"liquid": "#8ecae6", "glass": "#ffe8a3", "crystal": "#d9b8f0"}
SUFFIXES = (".png", ".svg")


def _figure(columns: int, width: float = 10.0, height: float = 3.6) -> tuple[Any, Any]:
    """An Agg figure with one row of axes; no global state, no display, reproducible SVG."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "crystalrl", "svg.fonttype": "none"})
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, np.atleast_1d(figure.subplots(1, columns))


def save(figure: Any, path: Path) -> None:
    """Write PNG or SVG by suffix; the same input gives the same bytes."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a figure must end in {' or '.join(SUFFIXES)}, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=110, metadata=metadata)


def _bands(axis: Any, show: Show) -> None:
    edges = {"liquid": (0, show.tau_L), "glass": (show.tau_L, show.tau_C), "crystal": (show.tau_C, 1)}
    for name, (low, high) in edges.items():
        axis.axhspan(low, high, color=COLOURS[name], alpha=0.5, lw=0)
        axis.text(
            0.99, (low + high) / 2, name, transform=axis.get_yaxis_transform(), ha="right", va="center", fontsize=8
        )


def draw_show(show: Show, path: Path) -> None:
    """Mean ± standard deviation over the phase bands, and the density of c at several times."""
    figure, (left, right) = _figure(2)
    t = np.linspace(0, show.end, 160)
    mean = np.asarray(show.law.mean(t, show.c0))
    deviation = np.sqrt(np.asarray(show.law.variance(t, show.c0)))
    _bands(left, show)
    left.plot(t, mean, color="black", lw=1.5)
    left.fill_between(
        t, np.maximum(mean - deviation, 0), np.minimum(mean + deviation, 1), color="black", alpha=0.25, lw=0
    )
    left.set(xlabel="t (consolidations)", ylabel="c", ylim=(0, 1), title="mean ± standard deviation")
    _densities(right, show)
    save(figure, path)


def _densities(axis: Any, show: Show) -> None:
    """Densities scaled to a common peak: they differ by orders of magnitude. Without noise, a line at the mean."""
    times = show.end * np.array([0.02, 0.05, 0.12, 0.25, 0.5, 1.0])
    for shade, t in zip(np.linspace(0.15, 0.85, times.size), times, strict=True):
        mean, deviation = float(show.law.mean(t, show.c0)), float(np.sqrt(show.law.variance(t, show.c0)))
        if deviation < 1e-12:
            axis.axvline(mean, color=str(1 - shade), label=f"t = {t:.3g}")
            continue
        x = np.unique(np.clip(mean + deviation * np.linspace(-5, 5, 121), 1e-6, 1 - 1e-6))
        density = np.asarray(show.law.pdf(x, t, show.c0))
        axis.plot(x, density / density.max(), color=str(1 - shade), lw=1.3, label=f"t = {t:.3g}")
    axis.set(xlabel="c", ylabel="density / peak", xlim=(0, 1), title="law of c over time")
    axis.legend(fontsize=7, frameon=False)


def draw_utilities(path: Path) -> None:
    """Without interference utility sets only the speed; with it, also the level."""
    figure, axes = _figure(2)
    t = np.linspace(0, 200, 120)
    for axis, interference in zip(axes, (0.0, 1.0), strict=True):
        _bands(axis, Show())
        for utility in (0.05, 0.1, 0.25, 0.5, 1.0):
            law = Crystallization(utility=utility, interference=interference)
            axis.plot(t, np.asarray(law.mean(t, 0.0)), lw=1.4, label=f"U = {utility:g}")
        axis.set(xlabel="t (consolidations)", ylabel="mean c", ylim=(0, 1), title=f"I = {interference:g}")
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save(figure, path)


def draw_forgetting(path: Path) -> None:
    """How likely a crystal falls below τ_L under sustained interference, against its utility."""
    figure, (left, right) = _figure(2)
    utility = np.linspace(0.03, 0.12, 37)
    for sigma in (0.005, 0.01, 0.02):
        laws = [Crystallization(utility=float(u), interference=1.0, sigma=sigma) for u in utility]
        left.semilogy(utility, [float(law.stationary().cdf(0.3)) for law in laws], label=f"σ = {sigma:g}")
        right.semilogy(utility, [10 ** min(float(law.log10_mean_first_passage(0.3, 0.71)), 30) for law in laws])
    left.set(xlabel="utility", ylabel="long-run P[c < .3]", ylim=(1e-12, 1.5), title="below at a late time")
    right.set(xlabel="utility", ylabel="consolidations", ylim=(50, 1e16), title="mean time to the first fall below .3")
    left.legend(fontsize=8, frameon=False)
    save(figure, path)


def draw_samplers(path: Path) -> None:
    """Mean and variance of each sampler against the step Δt, from c = 0 to t = 50 at the defaults."""
    figure, (left, right) = _figure(2)
    law, steps = Crystallization().rates, (1.0, 2.0, 5.0, 10.0, 25.0, 50.0)
    for name in SAMPLERS:
        rows = [measure(law, name, dt, Trial(0.0, 50.0, 4000)) for dt in steps]
        left.semilogx(steps, [row.mean_error for row in rows], "o-", ms=3, label=name)
        right.loglog(steps, [max(row.variance_ratio, 1e-3) for row in rows], "o-", ms=3)
    left.set(xlabel="Δt", ylabel="mean − exact", title="mean at t = 50")
    right.set(xlabel="Δt", ylabel="variance / exact", title="variance at t = 50")
    left.legend(fontsize=8, frameon=False)
    save(figure, path)
