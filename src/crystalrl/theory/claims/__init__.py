"""Claims of the paper, with the place of each, a verdict, and evidence that is computed on demand."""

from __future__ import annotations

from collections.abc import Iterator

from crystalrl.theory.claims import (
    ablation_claims,
    architecture_claims,
    capacity_claims,
    cost_claims,
    experiment_claims,
    forgetting_claims,
    learning_claims,
    operation_claims,
    physics_claims,
    sde_claims,
    utility_claims,
)
from crystalrl.theory.claims.claim import VERDICTS, Claim, Place, Verdict

SECTIONS: dict[str, tuple[Claim, ...]] = {
    "The stochastic differential equation": sde_claims.CLAIMS,
    "Physics and discretisation": physics_claims.CLAIMS,
    "Forgetting and melting": forgetting_claims.CLAIMS,
    "Utility and interference": utility_claims.CLAIMS,
    "Architecture and algorithms": architecture_claims.CLAIMS,
    "Computing time and memory": cost_claims.CLAIMS,
    "Contents, time scales, settings": operation_claims.CLAIMS,
    "Error of Q-learning": learning_claims.CLAIMS,
    "Capacity and allocation": capacity_claims.CLAIMS,
    "Benchmarks": experiment_claims.CLAIMS,
    "Ablation, sensitivity, interpretation": ablation_claims.CLAIMS,
}


def count(verdict: Verdict | None = None) -> int:
    """Number of claims, of all verdicts or of one."""
    return sum(verdict in (None, claim.verdict) for claims in SECTIONS.values() for claim in claims)


def with_evidence(verdict: Verdict | None = None) -> Iterator[tuple[str, Claim, str]]:
    """(section, claim, evidence) for all claims or those of one verdict; computing all takes a few seconds."""
    for section, claims in SECTIONS.items():
        for claim in claims:
            if verdict in (None, claim.verdict):
                yield section, claim, claim.evidence()


__all__ = ["SECTIONS", "VERDICTS", "Claim", "Place", "Verdict", "count", "with_evidence"]
