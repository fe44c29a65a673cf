"""The figure of `sb3_continual.py`: return on each task after each stage, one panel per task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot

STAGES = ("A", "B", "C", "A again")
COLOURS = {"stock": "#888888", "prioritized": "#d08020", "crystal": "#1060b0"}


def interval(values: Any, draws: int = 4000) -> tuple[float, float, float]:
    """Mean over the seeds and its 95 % interval by bootstrap."""
    values = np.asarray(values, float)
    means = np.random.default_rng(0).choice(values, (draws, len(values))).mean(1)
    return float(values.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def table(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """buffer → scores [seeds, stages, tasks]."""
    names = list(dict.fromkeys(one["buffer"] for one in runs))
    return {
        name: np.array([[list(stage.values()) for stage in one["scores"]] for one in runs if one["buffer"] == name])
        for name in names
    }


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for name, scores in table(runs).items():
        for task, axis in enumerate(axes):
            mean, low, high = np.array([interval(scores[:, stage, task]) for stage in range(scores.shape[1])]).T
            axis.plot(mean, label=name, color=COLOURS[name], marker="o")
            axis.fill_between(range(len(mean)), low, high, color=COLOURS[name], alpha=0.15, linewidth=0)
    for task, axis in zip("ABC", axes, strict=True):
        axis.set_title(f"task {task}")
        axis.set_xticks(range(len(STAGES)), STAGES)
        axis.set_xlabel("after learning")
    axes[0].set_ylabel("return (at most 200)")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
