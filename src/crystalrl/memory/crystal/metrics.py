"""What the numbers of a consolidation mean: the four most important ones first, then the rest by subject, for
loggers."""

from __future__ import annotations

from dataclasses import dataclass

DETAILS = "_details"
"""Added to the name of a logger's group for all but the most important numbers."""


@dataclass(frozen=True)
class Metric:
    """A logged number: what it is and, for the most important ones, what to expect."""

    meaning: str
    expect: str = ""


MAIN = {
    "crystal": Metric(
        "experiences kept as crystals", "rises from 0 once learning has begun; if it stays 0, nothing is kept"
    ),
    "anchor_weight_crystal": Metric(
        "share of the anchor loss that crystals carry",
        "near 1 once there are crystals; if this and `td_weight_crystal` are 0, crystals are not learnt from",
    ),
    "melted": Metric(
        "crystals that became glass or liquid *",
        "near 0, with a burst where a task has changed its rewards; always high: rewards are noisy",
    ),
    "error": Metric(
        "mean |δ| of all stored experiences", "falls while a task is learnt, rises when a task begins"
    ),
}  # fmt: skip
"""The numbers that tell whether a memory works, in order."""

_STAGES = {
    "evaluate": "the critic evaluates the experiences",
    "neighbours": "neighbours are found",
    "utility": "utilities are computed",
    "interference": "contradictions are found",
    "crystallization": "c moves, anchors follow",
    "moves": "experiences change phase",
    "apply": "the plan is written",
    "report": "this report is computed",
}
OTHERS: dict[str, dict[str, Metric]] = {
    "Contents": {
        "liquid": Metric("experiences in liquid"),
        "glass": Metric("experiences in glass"),
        "liquid_share": Metric("share of the slots of liquid in use; above 1 if it borrows slots of other phases"),
        "glass_share": Metric("share of the slots of glass in use"),
        "crystal_share": Metric("share of the slots of crystal in use"),
        "contexts": Metric("effective number of tasks among the crystals; only if experiences have task ids"),
    },
    "Crystallization": {
        "c_mean_liquid": Metric("mean c in liquid; not logged while the phase is empty"),
        "c_mean_glass": Metric("mean c in glass"),
        "c_mean_crystal": Metric("mean c in crystal"),
        "c_variance_liquid": Metric("variance of c in liquid"),
        "c_variance_glass": Metric("variance of c in glass"),
        "c_variance_crystal": Metric("variance of c in crystal"),
        "at_one": Metric("share of experiences at c = 1"),
        "utility": Metric("mean utility"),
        "clipped": Metric("share of the |δ| that are clipped when they are scaled to [0, 1]"),
        "time_step": Metric("mean Δt, in time units"),
        "evaluated": Metric("experiences evaluated *"),
    },
    "Moves and evictions": {
        "to_glass": Metric("experiences that became glass *"),
        "to_crystal": Metric("experiences that became crystal *"),
        "to_liquid": Metric("glass that became liquid again *"),
        "refused": Metric("experiences not admitted to crystal because it is full *"),
        "crystal_dropped": Metric("crystals evicted because the phase is full *"),
        "glass_evicted": Metric("glass evicted because the phase is full *"),
        "liquid_evicted": Metric("liquid evicted because the phase is full *"),
        "streak_evicted": Metric("crystals evicted because they were contradicted too often in a row *"),
    },
    "Interference": {
        "contradicted": Metric("experiences that others contradict *"),
        "suspicion": Metric("mean interference W of glass and crystal, propagated back from successor states"),
        "epsilon": Metric("distance of states within which rewards are compared"),
        "delta_r": Metric("difference of rewards that is a contradiction"),
    },
    "What is learnt from": {
        "td_weight_liquid": Metric("share of a batch’s TD loss that liquid carries"),
        "td_weight_glass": Metric("share of a batch’s TD loss that glass carries"),
        "td_weight_crystal": Metric("share of a batch’s TD loss that crystals carry"),
        "anchor_weight_liquid": Metric("share of the anchor loss that liquid carries"),
        "anchor_weight_glass": Metric("share of the anchor loss that glass carries"),
    },
    "Time": {f"seconds_{stage}": Metric(f"wall-clock time while {what} *") for stage, what in _STAGES.items()},
}
"""The other numbers, by subject. *: per consolidation."""


def tag(name: str, group: str = "memory") -> str:
    """The name under which a number is logged: in the group if it is one of the most important, otherwise in a second
    group."""
    return f"{group}/{name}" if name in MAIN else f"{group}{DETAILS}/{name}"
