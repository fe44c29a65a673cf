"""Looking up the evidence of a claim."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crystalrl.theory.claims import Claim


def evidence(claims: Sequence[Claim], where: str) -> str:
    """The sentence computed for the claim at this place."""
    (claim,) = [claim for claim in claims if claim.place.name == where]
    return claim.evidence()


def assert_has(claims: Sequence[Claim], where: str, numbers: tuple[str, ...]) -> None:
    """The evidence names all of these numbers."""
    sentence = evidence(claims, where)
    for number in numbers:
        assert re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d|[.,]\d)", sentence), f"{number} in: {sentence}"
