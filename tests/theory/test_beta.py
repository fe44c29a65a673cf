"""Functions of the Beta distribution against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from crystalrl.theory import beta


@pytest.mark.parametrize("shapes", [(0.05, 2000), (2000, 0.05), (2000, 40), (200, 400), (3, 1e5), (5e6, 2e5)])
@pytest.mark.parametrize("z", [-60.0, -8.0, -0.5])
def test_log_tails_agree_with_mpmath(shapes: tuple[float, float], z: float) -> None:
    p, q = shapes
    deviation = np.sqrt(p * q / (p + q) ** 2 / (p + q + 1))
    x = p / (p + q) + z * deviation
    if x <= 0:
        x = p / (p + q) * 1e-3
    with mpmath.workdps(40):
        if p + q < 1e5:
            exact = float(mpmath.log(mpmath.betainc(p, q, 0, mpmath.mpf(float(x)), regularized=True)))
        else:
            front = p * mpmath.log(x) + q * mpmath.log1p(-x) - mpmath.log(p) - mpmath.log(mpmath.beta(p, q))
            terms, ratio = mpmath.mpf(1), mpmath.mpf(1)
            for n in range(200_000):
                ratio *= (p + q + n) * mpmath.mpf(float(x)) / (p + 1 + n)
                terms += ratio
                if ratio < terms * mpmath.mpf(10) ** -18:
                    break
            exact = float(front + mpmath.log(terms))
    assert beta.log_cdf(np.array(x), p, q) == pytest.approx(exact, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("shapes", [(0.05, 0.05), (1e-3, 50.0), (2000.0, 40.0), (5e10, 1e9), (2e12, 3.0)])
def test_the_beta_weight_agrees_with_mpmath_at_any_size(shapes: tuple[float, float]) -> None:
    p, q = shapes
    deviation = np.sqrt(p / (p + q) * (q / (p + q)) / (p + q + 1))
    for x in np.clip(p / (p + q) + deviation * np.array([-3.0, 0.0, 2.0]), 1e-6, 1 - 1e-13):
        with mpmath.workdps(50):
            big = mpmath.mpf(float(x))
            log_beta = mpmath.loggamma(p) + mpmath.loggamma(q) - mpmath.loggamma(mpmath.mpf(p) + mpmath.mpf(q))
            exact = float(p * mpmath.log(big) + q * mpmath.log(1 - big) - log_beta)
        assert beta.log_weight(np.array(x), p, q) == pytest.approx(exact, abs=2e-4 if p > 1e9 else 1e-9)
