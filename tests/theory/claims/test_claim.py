"""One claim: its evidence is computed on demand, and its place names the lines of the paper."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from crystalrl.theory import Crystallization
from crystalrl.theory.claims.claim import DEFAULT, THRESHOLDS, Claim, Place, contradicted


def test_evidence_is_computed_only_when_it_is_asked_for() -> None:
    asked = []
    claim = Claim(Place("here", "I", 1, "so"), "so", "true", lambda: asked.append("asked") or "because", "—")
    assert not asked
    assert [claim.evidence(), claim.evidence()] == ["because"] * 2
    assert len(asked) == 2
    with pytest.raises(FrozenInstanceError):
        claim.verdict = "false"  # type: ignore[misc]


def test_the_label_names_the_section_and_all_lines() -> None:
    assert Place("Thm fp", "III-D", 418, "evolves").label == "Thm fp, III-D, line 418"
    two = Place("Complexity", "IV-E", 988, "is $O(N)$", ((1788, "$O(N\\log N)$"),))
    assert two.label == "Complexity, IV-E, lines 988, 1788"
    assert Place("Abstract (iii)", "Abstract", 74, "matching").label == "Abstract (iii), line 74"
    assert two.quotes == ((988, "is $O(N)$"), (1788, "$O(N\\log N)$"))


def test_the_worst_case_has_permanent_interference_at_the_default_rates() -> None:
    law = contradicted(0.4, 0.02)
    assert (law.rates.gain, law.rates.loss, law.sigma) == pytest.approx((0.05 * 0.4, 0.005, 0.02))
    assert contradicted(0.5).stationary().mean == pytest.approx(0.025 / 0.030)
    assert Crystallization() == DEFAULT
    assert THRESHOLDS == (0.3, 0.7)
