"""Figures of the law: small files, the same for the same law, with the numbers of the law in them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report.theory_figures import draw_samplers, draw_utilities
from crystalrl.theory import Thresholds
from crystalrl.theory.samplers import Comparison
from tests.cli.theory.command import run


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("extra", [(), ("--sigma", "0"), ("--utility", "0", "--interference", "0", "--c0", "0.4")])
def test_show_writes_a_small_figure(tmp_path: Path, suffix: str, extra: tuple[str, ...]) -> None:
    target = tmp_path / f"law{suffix}"
    run("show", "--plot", str(target), *extra)
    assert 2_000 < target.stat().st_size < 200_000


def test_figures_are_reproducible(tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        run("show", "--plot", str(tmp_path / name))
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def numbers(path: str) -> np.ndarray:
    """The points of an SVG path, [N, 2]."""
    return np.array(re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path), dtype=np.float64)


def test_the_curves_are_the_mean_paths_over_bands_at_the_thresholds(tmp_path: Path) -> None:
    draw_utilities(Thresholds(0.25, 0.6, band=0.0), tmp_path / "utilities.svg")
    drawn = (tmp_path / "utilities.svg").read_text()
    frame, *bands = (numbers(path) for path in re.findall(r'<g id="patch_[2345]">\s*<path d="([^"]*)"', drawn))
    bottom, top = frame[:, 1].max(), frame[:, 1].min()

    def level(points: np.ndarray) -> np.ndarray:
        return (bottom - points[:, 1]) / (bottom - top)

    edges = [(level(band).min(), level(band).max()) for band in bands]
    np.testing.assert_allclose(edges, [(0, 0.25), (0.25, 0.6), (0.6, 1)], atol=1e-6)
    paths = [numbers(path) for path in re.findall(r'<g id="line2d_\d+">\s*<path d="([^"]*)"', drawn)]
    curves = [points for points in paths if len(points) > 20]
    utilities = (0.05, 0.1, 0.25, 0.5, 1.0)
    assert len(curves) == 2 * len(utilities)
    for place, points in enumerate(curves):
        t = 200 * (points[:, 0] - points[0, 0]) / (points[-1, 0] - points[0, 0])
        gain, loss = 0.05 * utilities[place % 5], 0.005 * (place // 5)
        wanted = gain / (gain + loss) * (1 - np.exp(-(gain + loss) * t))
        np.testing.assert_allclose(level(points), wanted, atol=1e-3)


def test_every_sampler_is_named_and_a_vanishing_variance_stays_on_the_logarithmic_axis(tmp_path: Path) -> None:
    rows = [Comparison("slow", dt, 0.01 * dt, 0.001, ratio, 0.0, 0.0) for dt, ratio in ((1.0, 1.0), (10.0, 0.0))]
    draw_samplers({"slow": rows, "other": rows}, tmp_path / "samplers.svg")
    drawn = (tmp_path / "samplers.svg").read_text()
    assert {"slow", "other", "variance / exact"} <= set(re.findall(r">([^<>\n]+)</text>", drawn))
    lines = [numbers(path) for path in re.findall(r'<g id="line2d_\d+">\s*<path d="([^"]*)" clip', drawn)]
    assert len(lines) == 4  # two samplers, mean and variance
    assert all(len(line) == 2 for line in lines)
    assert np.isfinite(lines).all()
