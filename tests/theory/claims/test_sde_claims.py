"""Evidence about the equation: the known numbers, the Beta distribution of SciPy, and a sum over stages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from crystalrl.theory.claims.sde_claims import CLAIMS
from tests.theory.claims.evidence import assert_has, evidence


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Thm wellposed, proof", ("177.5", "327.3", "1316.8")),
        ("Thm exp_conv (iii), first bound", ("×11.8", "8.19e-05")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_the_stationary_law_has_the_numbers_of_scipy_s_beta_distribution() -> None:
    mean, variance = stats.beta.stats(2000, 40)
    assert_has(CLAIMS, "Thm stationary", ("2000", "40", f"{mean:.5f}"))
    contradicted = stats.beta.std(2 * 0.025 / 0.005**2, 2 * 0.005 / 0.005**2)
    assert_has(CLAIMS, "Remark rm_verified", (f"{contradicted:.4f}",))
    # P[c < .7] underflows; its leading factors are .7^A·.3^B / (A·B(A, B)), and the rest is a series in .7.
    k = np.arange(4000)
    terms = np.cumprod(np.r_[1.0, (2000 + 40 + k) / (2000 + 1 + k) * 0.7])
    log = 2000 * np.log(0.7) + 40 * np.log(0.3) - np.log(2000) - special.betaln(2000, 40) + np.log(terms.sum())
    assert f"10^{log / np.log(10):.1f} " in evidence(CLAIMS, "Cor. occupancy")
    assert variance == pytest.approx(0.0031**2, rel=0.05)


def test_the_times_of_absorption_are_sums_over_the_eigenvalues() -> None:
    """Without interference the time to reach 1 from 0 is a sum of exponential times with means 1/λ_n."""
    n = np.arange(1, 2_000_001)
    for utility, number in ((1.0, "177.5"), (0.5, "327.3"), (0.1, "1316.8")):
        rates = n * 0.05 * utility + n * (n - 1) * 0.005**2 / 2
        assert f"{np.sum(1 / rates) + 2 / 0.005**2 / n[-1]:.1f}" == number


def test_two_starts_with_the_same_noise_come_closer_as_their_means_do() -> None:
    """λ = αU + βI = .5·.5 + .5·.5: e^(−2λ) is what remains of the gap at t = 2."""
    kept = f"{np.exp(-2 * 0.5):.3f}"
    assert evidence(CLAIMS, "Thm wellposed (i)").count(kept) == 2
