"""Where a comparison of the paper was made on other tasks: stored results, their rows, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    """Stored results of other tasks: one folder for each table of the paper."""

    folder: str
    rows: Mapping[str, str]
    """The paper's row → ours; AMC is what the others are compared with."""
    metrics: Mapping[str, tuple[str, float]]
    """The paper's metric → ours, and its factor."""

    def covers(self, row: str, metric: str) -> bool:
        """Whether a number has its counterpart."""
        return row in self.rows and row != "AMC" and metric in self.metrics


SCORES = {"AP": ("AP", 100.0), "BT": ("BT", 100.0)}
BASELINES = {"AMC": "paper()", "VR": "VR", "PER": "PER", "EWC": "EWC"}
FIXED = "paper, ε and interval set"
PARTS = {
    "no crystallization": "c = 0",
    "no phase LR modulation": "no gate",
    "no interference detection": "no interference",
    "no novelty": "no novelty",
    "no downstream value": "no downstream value",
    "single buffer": "single buffer",
    "no SDE noise": "no noise",
    "random V": "random downstream value",
}
ELSEWHERE = {
    "metaworld": Elsewhere("nav-evidence/eight", BASELINES, SCORES),
    "matched": Elsewhere("nav-evidence/sixteen", BASELINES, SCORES),
    "mujoco": Elsewhere("nav-evidence/eight", BASELINES, {"task-1 retention": ("task-1 retention", 100.0)}),
    "ablation": Elsewhere(
        "nav-evidence/eight", {"AMC": FIXED, **{row: f"{FIXED}, {ours}" for row, ours in PARTS.items()}}, SCORES
    ),
    "first-task": Elsewhere(
        "nav-evidence/eight", {"AMC": "paper()", "VR": "VR"}, {"loss of task 1": ("task-1 retention", -100.0)}
    ),
}
"""Table of the paper → where its comparisons were made. `matched` has the stored results with few slots."""
