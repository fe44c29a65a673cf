"""Which numbers of a table are marked as best: only where the lead is significant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crystalrl.study.analysis import Results, Row, compare
from crystalrl.study.stats import holm, welch

FEW = 10
"""With fewer seeds than this, no lead is called certain and nothing is marked."""
LOWER = ("forgetting",)
"""Metrics of which less is better."""


def design(row: Row) -> tuple[str, str]:
    """Rows with the same memory and method count as one method, whatever their settings."""
    return row.spec.memory, row.spec.method


def significantly_best(results: Results, metric: str) -> Row | None:
    """The row with the best mean, if it is better than every row of another method.

    The corrected p against each of them must be below .05, with enough seeds in each.
    """
    rows = [row for row in results.rows if np.isfinite(row.chosen.metrics[metric]).all()]
    if not rows:
        return None
    sign = -1.0 if metric in LOWER else 1.0
    best = max(rows, key=lambda row: sign * float(row.chosen.metrics[metric].mean()))
    others = [row for row in rows if design(row) != design(best)]
    if not others or min(len(row.chosen.seeds) for row in (best, *others)) < FEW:
        return None
    return best if max(corrected(results, metric, best, others)) < 0.05 else None


def corrected(results: Results, metric: str, best: Row, others: Sequence[Row]) -> list[float]:
    """Holm-corrected p of a row against each of the others: in the family of the study, if it tests these pairs."""
    if metric in results.family and best.name == results.reference.name:
        tested = {c.row: c.adjusted for c in compare(results) if c.metric == metric}
        return [tested[row.name] for row in others]
    return holm([welch(best.chosen.metrics[metric], row.chosen.metrics[metric]) for row in others])
