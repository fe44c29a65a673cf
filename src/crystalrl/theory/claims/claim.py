"""One claim of the paper: what it says, whether it holds, the computed evidence, and what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from crystalrl.theory.law import Crystallization

Verdict = Literal["true", "conditional", "false", "unverifiable", "underspecified"]
VERDICTS: dict[Verdict, str] = {
    "true": "holds as stated",
    "conditional": "holds under a condition the paper leaves out",
    "false": "does not hold",
    "unverifiable": "cannot be checked from the published material",
    "underspecified": "contradictory or incomplete",
}

DEFAULT = Crystallization()
THRESHOLDS = (0.3, 0.7)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper with its verdict."""

    where: str
    """Place in the paper; unique."""
    says: str
    """The claim, paraphrased."""
    verdict: Verdict
    evidence: Callable[[], str]
    """Computes the evidence, as a sentence."""
    instead: str
    """What holds, or what to use instead."""


def contradicted(utility: float, sigma: float = 0.005) -> Crystallization:
    """The paper's worst case at its default rates: permanent interference, I = 1."""
    return Crystallization(utility=utility, interference=1.0, sigma=sigma)
