"""The claims: each named once, with a verdict, a replacement and computable evidence."""

from __future__ import annotations

from crystalrl.theory import claims


def test_every_claim_is_named_once_with_a_known_verdict_and_a_replacement() -> None:
    rows = [claim for section in claims.SECTIONS.values() for claim in section]
    assert len(rows) == claims.count() >= 60
    assert len({claim.where for claim in rows}) == len(rows)
    assert {claim.verdict for claim in rows} == set(claims.VERDICTS)
    assert all(claim.says and claim.instead for claim in rows)


def test_evidence_can_be_computed_for_a_single_verdict() -> None:
    rows = list(claims.with_evidence("unverifiable"))
    assert len(rows) == claims.count("unverifiable")
    assert all(evidence and "nan" not in evidence for _, _, evidence in rows)
