"""The Jacobi series against high-precision oracles."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization, moments, transient

from .oracles import ancestral_cdf, rates

SHAPES = [
    (0.05, 0.05),
    (0.05, 2.0),
    (0.5, 0.5),
    (1.0, 1.0),
    (4.0, 4.0),
    (30.0, 0.5),
    (0.05, 400.0),
    (200.0, 400.0),
    (2000.0, 40.0),
    (2000.0, 400.0),
    (40.0, 2000.0),
    (2000.0, 0.05),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_series_agrees_with_the_ancestral_mixture(shapes: tuple[float, float]) -> None:
    law, c0 = rates(*shapes), 0.3
    deviation = np.sqrt(np.prod(shapes) / sum(shapes) ** 2 / (sum(shapes) + 1))
    # The mean is at most 6 standard deviations from c*, and about 40 lineages are left for the oracle to sum over.
    t = max(np.log(abs(c0 - law.target) / deviation / 6), np.log1p(sum(shapes) / 40)) / law.rate
    centre, spread = moments.mean(law, t, c0), np.sqrt(moments.variance(law, t, c0))
    x = np.clip(centre + spread * np.array([-3, -1, -0.2, 0.5, 2]), 0.001, 0.9999)
    answer = transient.cdf(law, x, t, c0)
    assert set(answer.method) == {"series"}
    np.testing.assert_allclose(answer.value, ancestral_cdf(law, x, t, c0), atol=5e-9)


@pytest.mark.parametrize("z", [5.0, 7.0, 8.9])
def test_the_reported_error_covers_the_rounding_of_the_series(z: float) -> None:
    law = rates(2000, 40, 0.005)
    t = float(np.log(moments.mean(law, 0, 0) + law.target / np.sqrt(9.418606e-06) / z) / law.rate)
    centre, spread = moments.mean(law, t, 0.0), np.sqrt(moments.variance(law, t, 0.0))
    x = centre + spread * np.array([-2, -1, 0, 1, 2])
    answer = transient.cdf(law, x, t, 0.0)
    assert set(answer.method) == {"series"}
    actual = np.abs(answer.value - ancestral_cdf(law, x, t, 0.0, most=160))
    assert np.all(actual <= answer.error + 1e-11)


def test_the_series_is_not_used_beyond_nine_standard_deviations() -> None:
    law = Crystallization()
    centre = law.mean([100.0, 300.0], 0.0)
    assert law.cdf(centre, [100.0, 300.0], 0.0, full_output=True).method.tolist() == ["matched", "series"]
