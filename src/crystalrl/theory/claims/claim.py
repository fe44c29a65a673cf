"""One claim of the paper: where it stands, whether it holds, the computed evidence, and what to use instead."""

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
class Place:
    """Where the paper says it. `tests/theory/claims/test_claims.py` compares places with the paper's source."""

    name: str
    """Theorem, equation, table or topic; unique. Theorems and equations are named by their LaTeX labels."""
    section: str
    """Number of the section as printed, such as "III-D", or "Abstract"."""
    line: int
    """Line of the LaTeX source on which the quote begins."""
    quote: str
    """At most twelve words of the source."""
    also: tuple[tuple[int, str], ...] = ()
    """Further lines with their quotes: where the paper repeats or contradicts it."""

    @property
    def label(self) -> str:
        """Name, section and lines, for tables."""
        lines = f"line{'s' if self.also else ''} " + ", ".join(str(line) for line, _ in self.quotes)
        place = [self.name] if self.name.startswith(self.section) else [self.name, self.section]
        return ", ".join([*place, lines])

    @property
    def quotes(self) -> tuple[tuple[int, str], ...]:
        """All lines with their quotes."""
        return ((self.line, self.quote), *self.also)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper with its verdict."""

    place: Place
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
