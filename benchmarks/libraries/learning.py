"""Comparisons of learning: runs that are stored as they end, and the difference between two buffers.

Scores are mean returns of the last 20 episodes of training on CartPole, 5 on Pendulum, exploration included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from statistics import mean, stdev
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks.harness.pages import table
from benchmarks.harness.results import Setting
from benchmarks.libraries.interface import Buffer, library
from crystalrl import CrystalParams

PLAIN = CrystalParams.anchored(
    alpha=0.0, sigma=0.0, settle=None, gate=0.0, kappa=0.0, nu=0.0, w1=0.0, w2=0.0, w3=0.0, interference="none",
    backup=0.0, capacity=(1.0, 0.0, 0.0), batch=(1.0, 0.0, 0.0),
)  # fmt: skip
"""c ≡ 0, no gate, no anchors, uniform draws, first in first out: plain replay."""
Runs = list[dict[str, Any]]
Key = tuple[str, str, int]
"""Algorithm, buffer and seed of a run."""


def compare(stored: Runs | None, keys: Iterable[Key], run: Callable[[str, str, int], float]) -> Iterator[Runs]:
    """Scores of all runs, as they end; what is stored is not run again."""
    runs = list(stored or [])
    done = {(r["algorithm"], r["buffer"], r["seed"]) for r in runs}
    for key in keys:
        if key not in done:
            start = process_time()
            score = run(*key)
            names = dict(zip(("algorithm", "buffer", "seed"), key, strict=True))
            runs.append({**names, "score": score, "seconds": round(process_time() - start, 1)})
            yield runs


def difference(runs: Runs, algorithm: str, buffer: str = "plain", stock: str = "stock") -> dict[str, float]:
    """Mean scores, their difference, its 95 % interval (Welch), and half of the 95 % interval of stock's mean."""
    ours, theirs = (
        np.array([r["score"] for r in runs if r["algorithm"] == algorithm and r["buffer"] == name])
        for name in (buffer, stock)
    )
    interval = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    spread = stats.t.ppf(0.975, len(theirs) - 1) * stats.sem(theirs)
    return {
        "ours": float(ours.mean()),
        "stock": float(theirs.mean()),
        "difference": float(ours.mean() - theirs.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "stock_half_interval": float(spread),
    }


BUFFERS: dict[str, Buffer] = {
    "stock": None,
    "prioritized": "prioritized",
    "plain": PLAIN,
    "crystal": CrystalParams.anchored(),
}
"""The library's own, its prioritized one if that is another, ours with c ≡ 0, and ours."""


class Task(NamedTuple):
    last: int
    """Episodes whose mean return is the score."""
    seeds: int
    buffers: tuple[str, ...]


TASKS = {"CartPole-v1": Task(20, 10, ("stock", "plain", "crystal")), "Pendulum-v1": Task(5, 5, ("stock", "crystal"))}


def measure(setting: Setting, name: str) -> Iterator[Runs]:
    lib = library(name)

    def run(algorithm: str, buffer: str, seed: int) -> float:
        steps = 900 if setting.quick else lib.lengths[algorithm]
        returns = lib.train(algorithm, BUFFERS[buffer], seed, steps)
        return float(np.mean(returns[-_task(algorithm).last :]))

    keys = [
        (algorithm, buffer, seed)
        for algorithm in lib.lengths
        for seed in range(2 if setting.quick else _task(algorithm).seeds)
        for buffer in (*_task(algorithm).buffers, *filter(None, lib.stock.values()))
    ]
    return compare(setting.stored, keys, run)


def _task(algorithm: str) -> Task:
    return TASKS[algorithm.split(", ")[1]]


TITLES = {"cleanrl": "single-file agents", "tianshou": "Tianshou", "torchrl": "TorchRL"}
STOCK = {
    "cleanrl": {"stock": "uniform memory"},
    "tianshou": {"stock": "Tianshou's prioritized buffer"},
    "torchrl": {"stock": "TorchRL's `RandomSampler`", "prioritized": "TorchRL's `PrioritizedSampler`"},
}
"""Labels of a library's own buffers."""
CAUTION = "An interval (Welch) that includes 0 means that this few seeds show no difference, not that there is none."
OURS = {"plain": "ours with c ≡ 0", "crystal": "crystal memory"}


def interval(d: dict[str, float]) -> str:
    return f"{d['difference']:+.0f} [{d['low']:.0f}, {d['high']:.0f}]"


def block(runs: Runs, name: str) -> str:
    """Each algorithm with each buffer of its own, next to ours."""
    labels, found = STOCK[name], _scores(runs)
    rows, worse = [], []
    for algorithm, own in [key for key in found if key[1] in labels]:
        its = difference(runs, algorithm, "crystal", own)
        mine = {buffer: difference(runs, algorithm, buffer, own) for buffer in OURS if (algorithm, buffer) in found}
        cells = [
            cell for b in OURS for cell in ([f"{mine[b]['ours']:.0f}", interval(mine[b])] if b in mine else ["", ""])
        ]
        score = f"{its['stock']:.0f} ± {its['stock_half_interval']:.0f}"
        rows.append([algorithm, str(len(found[algorithm, own])), labels[own], score, *cells])
        worse += [f"{algorithm} with {OURS[b]}, compared with {labels[own]}" for b in mine if mine[b]["high"] < 0]
    head = ["", "seeds", "library's own", "its score ± 95 %"]
    head += [text for label in OURS.values() for text in (label, "difference [95 %]")]
    minutes = sum(r["seconds"] for r in runs) / 60
    verdict = f"Significantly worse: {'; '.join(worse)}." if worse else "No difference is significantly below 0."
    last = f"{verdict} {CAUTION} All runs together took {minutes:.0f} minutes of one core."
    return "\n\n".join(filter(None, [table(head, rows), _uneven(labels, found), last]))


def _scores(runs: Runs) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for r in runs:
        found.setdefault((r["algorithm"], r["buffer"]), [])
    for r in sorted(runs, key=lambda r: r["seed"]):
        found[r["algorithm"], r["buffer"]].append(r["score"])
    return found


def _uneven(labels: dict[str, str], found: dict[tuple[str, str], list[float]]) -> str:
    """Single scores where a mean hides them: their standard deviation is more than half of it."""
    wide = {algorithm for (algorithm, _), scores in found.items() if stdev(scores) > 0.5 * abs(mean(scores))}
    lists = [
        f"{algorithm}, {(labels | OURS)[buffer]}: {', '.join(f'{score:.0f}' for score in scores)}"
        for (algorithm, buffer), scores in found.items()
        if algorithm in wide
    ]
    return f"Single runs differ a lot, by seed: {'; '.join(lists)}." if lists else ""
