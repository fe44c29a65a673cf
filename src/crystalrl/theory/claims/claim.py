"""One row of the ledger: what the paper says, whether it holds, evidence computed now, and what to use instead."""

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
    "unverifiable": "cannot be checked from what is published",
    "underspecified": "contradictory or incomplete",
}

DEFAULT = Crystallization()
THRESHOLDS = (0.3, 0.7)


@dataclass(frozen=True, slots=True)
class Claim:
    """`where` in the paper, what it `says` (in our words), the `verdict`, `evidence` computed by calling, `instead`."""

    where: str
    says: str
    verdict: Verdict
    evidence: Callable[[], str]
    instead: str


def attacked(utility: float, sigma: float = 0.005) -> Crystallization:
    """The paper's worst case at its defaults: interference without end."""
    return Crystallization(utility=utility, interference=1.0, sigma=sigma)
