"""Every checkable claim of the paper, with a verdict and evidence that is computed on demand."""

from __future__ import annotations

from collections.abc import Iterator

from crystalrl.theory.claims import (
    architecture_claims,
    experiment_claims,
    forgetting_claims,
    learning_claims,
    physics_claims,
    sde_claims,
)
from crystalrl.theory.claims.claim import VERDICTS, Claim, Verdict

SECTIONS: dict[str, tuple[Claim, ...]] = {
    "The stochastic differential equation": sde_claims.CLAIMS,
    "Physics and discretisation": physics_claims.CLAIMS,
    "Forgetting and melting": forgetting_claims.CLAIMS,
    "Architecture and algorithms": architecture_claims.CLAIMS,
    "Learning, capacity, allocation": learning_claims.CLAIMS,
    "Experiments": experiment_claims.CLAIMS,
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


__all__ = ["SECTIONS", "VERDICTS", "Claim", "Verdict", "count", "with_evidence"]
