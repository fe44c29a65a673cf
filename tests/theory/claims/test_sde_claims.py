"""Evidence about the equation: known numbers, SciPy's Beta distribution, sums over stages, a Laplace inversion."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from crystalrl.theory.claims.sde_claims import CLAIMS
from tests.theory.claims.evidence import assert_has, evidence
from tests.theory.oracles import mean_passage_up, rates


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Thm wellposed, proof", ("177.5", "327.3", "1316.8", "0.32922")),
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


def test_the_chance_of_absorption_is_the_inverted_laplace_transform() -> None:
    """The stages have rates m(m + A − 1)σ²/2; the product of their transforms is a ratio of gamma functions."""
    shape, half = mpmath.mpf(2000), mpmath.mpf(0.005) ** 2 / 2

    def transform(s: mpmath.mpf) -> mpmath.mpf:
        root = mpmath.sqrt((shape - 1) ** 2 - 4 * s / half)
        low, high = (shape - 1 + root) / 2, (shape - 1 - root) / 2
        return mpmath.exp(mpmath.loggamma(1 + low) + mpmath.loggamma(1 + high) - mpmath.loggamma(shape)) / s

    with mpmath.workdps(30):
        chance = float(mpmath.invertlaplace(transform, 300, method="talbot"))
    assert chance == pytest.approx(0.32922, abs=5e-6)


def test_with_an_upper_shape_below_one_the_end_is_reached_in_the_time_of_the_double_integral() -> None:
    law = rates(20.0, 0.4, 0.05)
    time = mean_passage_up(law, 20 / 20.4, 1 - 1e-12)
    assert_has(CLAIMS, "Thm stationary, proof", ("0.4", f"{time:.0f}"))
    top = np.full(2000, 20 / 20.4)
    hit, rng, dt = np.zeros(2000, bool), np.random.default_rng(0), 0.05
    for _ in range(4000):
        top = top + dt * (law.gain * (1 - top) - law.loss * top)
        top += law.sigma * np.sqrt(dt * np.clip(top * (1 - top), 0, None)) * rng.standard_normal(2000)
        hit |= top >= 1
        top = np.clip(top, 0, 1)
    assert hit.mean() > 0.9
