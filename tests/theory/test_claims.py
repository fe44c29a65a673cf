"""The claims: complete, computable, and with the known numbers as evidence."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization, claims, paper
from crystalrl.theory.claims.forgetting_claims import utility_for
from crystalrl.theory.claims.learning_claims import biased_fixed_point, one_slot_error
from crystalrl.theory.claims.physics_claims import euler_mean_error


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


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Thm wellposed, proof", ("177.5", "327.3", "1316.8")),
        ("Thm exp_conv (iii), first bound", ("×11.8", "8.19e-05")),
        ("eq. forget_bound", ("0.0388", "0.0397")),
        ("Forgetting, rule", ("0.0585", "0.0764")),
        ("Forgetting, derivation", ("3.66e-04", "1.53e-04")),
        ("Appendix, factors", ("0.987",)),
        ("Alg. 2, split", ("357",)),
        ("Alg. 1, capacities", ("16,068", "72,318")),
        ("Cor. optimal_alloc", ("0.158114", "0.159687", "0.022361")),
        ("eq. cap, 4800", ("4.5e+10", "8.7e+08", "7.2e+04")),
        ("Table bio", ("2,865", "9,818", "2.43")),
        ("Table metaworld, bold BT", ("-13.4", "5e-23")),
        ("Table metaworld, p", ("5.5e-07",)),
        ("Turnover", ("87.4%", "19")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    claim = next(claim for rows in claims.SECTIONS.values() for claim in rows if claim.where == where)
    evidence = claim.evidence()
    for number in numbers:
        assert number in evidence


def test_prioritised_replay_without_full_correction_is_biased() -> None:
    rng = np.random.default_rng(0)
    rewards = np.where(np.arange(1000) < 100, 10.0, 0.0)
    q = 1.0
    for step in range(1, 20_001):
        error = np.abs(rewards - q) + 1e-12
        chance = error**0.6 / np.sum(error**0.6)
        drawn = rng.choice(1000, p=chance)
        weight = (1000 * chance[drawn]) ** -0.4
        q += 5.0 / (step + 100) * weight * (rewards[drawn] - q)
    assert q == pytest.approx(biased_fixed_point(0.6, 0.4), abs=0.1)
    assert biased_fixed_point(0.6, 1.0) == pytest.approx(1)
    assert paper.paper_q_error(0.0, 1.0, 10.0, 0.05, 100) == 0


def test_q_learning_converges_with_one_slot_where_the_paper_requires_thousands() -> None:
    assert paper.paper_necessary_capacity(10, 0.02, 0.05) == pytest.approx(13_246, abs=1)
    assert one_slot_error() < 0.02


def test_helpers_of_the_evidence_give_the_known_numbers() -> None:
    assert euler_mean_error(Crystallization().rates) == pytest.approx(0.0047, abs=1e-4)
    assert utility_for(1e-4, 0.005) == pytest.approx(0.0585, abs=1e-4)
