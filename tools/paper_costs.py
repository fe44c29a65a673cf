"""Benchmarks of ours beside the paper's times and bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crystalrl.report.verdicts import Verdict, of_difference, of_number
from tools.stored import ROOT

FILES = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Cost:
    """A stored number of ours."""

    text: str
    verdict: Verdict
    differs: str
    file: str


def cost(table: str, row: str, metric: str, printed: float, step: float) -> Cost | None:
    """What a benchmark says about a number of the paper; None if none does."""
    found = BESIDE.get((table, row, metric))
    return None if found is None else found(printed, step)


def load(name: str) -> tuple[Any, str]:
    """A stored benchmark, and its file."""
    return json.loads((FILES / f"{name}.json").read_text()), f"benchmarks/results/{name}.json"


def rebuilt(slots: str) -> Callable[[float, float], Cost]:
    """Build an index and query it for every experience: FAISS on our machine."""

    def found(printed: float, step: float) -> Cost:
        stored, file = load("consolidation")
        one = stored[f"speed {slots}"]
        differs = f"FAISS, one CPU thread instead of an A100; {one['experiences']:,} experiences"
        return Cost(f"{one['peer_seconds']:.1f} s", "not comparable", differs, file)

    return found


def incremental(printed: float, step: float) -> Cost:
    """Kept neighbour lists against a rebuilt index, on the same machine: is it faster, as the paper says?"""
    stored, file = load("consolidation")
    one = stored["speed 1000000"]
    whole = one["peer_seconds"]
    paper = printed - _rebuild()
    verdict = of_difference(paper, one["seconds"] - whole, one["worst"] - whole)
    text = f"{one['seconds']:.1f} s, at most {one['worst']:.1f} s; rebuilt {whole:.1f} s"
    return Cost(text, verdict, "one CPU thread; lists kept between consolidations, no index rebuilt", file)


def _rebuild() -> float:
    from crystalrl.theory.printed import tables

    return tables()["costs"].rows["consolidation: build and all queries, larger"].numbers["10⁶"].value


def amortized(printed: float, step: float) -> Cost:
    """Consolidation per training step."""
    stored, file = load("learners")
    own = stored["overhead"]["crystal"]
    differs = f"{stored['device']} instead of an A100; kept lists; every 5,000 steps instead of every 200"
    return Cost(f"{own['consolidation_ms_per_step']:.3f} ms", "not comparable", differs, file)


def overhead(printed: float, step: float) -> Cost:
    """Training with crystals against prioritized replay."""
    stored, file = load("learners")
    differs = (
        f"SAC on one {stored['device']} without environment; over prioritized replay; kept lists; every 5,000 steps"
    )
    return Cost(f"{100 * stored['overhead']['crystal']['overhead']:+.1f} %", "not comparable", differs, file)


def added(printed: float, step: float) -> Cost:
    """All bytes beside the experiences themselves, of 10⁶ slots."""
    stored, file = load("consolidation")
    megabytes = stored["speed 1000000"]["bytes"]  # bytes per slot are MB per 10⁶ slots
    differs = (
        "all that is held in addition to the experiences: c, counters, utilities, neighbour lists, copies of vectors"
    )
    return Cost(f"{megabytes:.0f} MB", of_number(printed, step, megabytes), differs, file)


def payload(printed: float, step: float) -> Cost:
    """The experiences themselves, of 10⁶ slots."""
    stored, file = load("consolidation")
    megabytes = stored["speed 1000000"]["parts"]["payload"]
    return Cost(f"{megabytes:.0f} MB", "not comparable", "39 observations, 4 actions; the paper names no sizes", file)


BESIDE: dict[tuple[str, str, str], Callable[[float, float], Cost]] = {
    ("costs", "consolidation: build and all queries", "10⁵"): rebuilt("100000"),
    ("costs", "consolidation: build and all queries, larger", "10⁶"): rebuilt("1000000"),
    ("costs", "consolidation with incremental updates", "10⁶"): incremental,
    ("costs", "consolidation, amortized, less than", "per step"): amortized,
    ("costs", "whole training", "overhead"): overhead,
    ("costs", "all that the method adds", "10⁶ experiences"): added,
    ("costs", "the experiences", "10⁶ experiences"): payload,
}
"""(table, row, metric) of the paper → what we measured."""
