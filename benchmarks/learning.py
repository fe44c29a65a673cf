"""Comparisons of learning: runs that are stored as they end, and the difference between two buffers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy import stats

from crystalrl import CrystalParams

PLAIN = CrystalParams.anchored(
    alpha=0.0, sigma=0.0, settle=None, gate=0.0, kappa=0.0, nu=0.0, w1=0.0, w2=0.0, w3=0.0, interference="none",
    backup=0.0, capacity=(1.0, 0.0, 0.0), batch=(1.0, 0.0, 0.0),
)  # fmt: skip
"""c ≡ 0, no gate, no anchors, uniform draws, the oldest leaves first: plain replay."""
Run = Callable[[str, str, int], float]
"""Score of (algorithm, buffer, seed)."""


def compare(path: Path, algorithms: Iterable[str], buffers: Iterable[str], seeds: Iterable[int], run: Run) -> None:
    """Every algorithm with every buffer on every seed, into a file; what it has is not run again."""
    runs: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    done = {(r["algorithm"], r["buffer"], r["seed"]) for r in runs}
    for key in ((a, b, s) for s in seeds for a in algorithms for b in buffers):
        if key in done:
            continue
        start = process_time()
        score = run(*key)
        runs.append(dict(zip(("algorithm", "buffer", "seed"), key, strict=True)))
        runs[-1] |= {"score": score, "seconds": round(process_time() - start, 1)}
        print(runs[-1], flush=True)
        path.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")


def difference(
    runs: list[dict[str, Any]], algorithm: str, buffer: str = "plain", beside: str = "stock"
) -> dict[str, float]:
    """Mean scores, their difference, its 95 % interval (Welch), and half of the 95 % interval of stock's mean."""
    scores = {
        name: np.array([r["score"] for r in runs if r["algorithm"] == algorithm and r["buffer"] == name])
        for name in (beside, buffer)
    }
    ours, stock = scores[buffer], scores[beside]
    interval = stats.ttest_ind(ours, stock, equal_var=False).confidence_interval()
    spread = stats.t.ppf(0.975, len(stock) - 1) * stats.sem(stock)
    return {
        "ours": float(ours.mean()),
        "stock": float(stock.mean()),
        "difference": float(ours.mean() - stock.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "stock_half_interval": float(spread),
    }
