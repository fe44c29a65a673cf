"""The bounds that replace those of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory.claims.claim import contradicted


@pytest.mark.parametrize("utility", [0.0, 0.03, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("sigma", [0.005, 0.05])
def test_the_replacement_bounds_hold(utility: float, sigma: float) -> None:
    law = contradicted(utility, sigma)
    times = np.array([1.0, 10.0, 60.0, 250.0, 1000.0, 1e5])
    for c0 in (0.35, 0.71, 0.99):
        result = law.forgetting(times, 0.3, c0)
        exact = np.where(result.below_method == "bound", 0, result.below)
        for bound in (result.sub_gaussian, result.cantelli, result.comparison):
            assert np.all(exact <= bound * (1 + 1e-6) + 1e-12)


def test_the_comparison_bound_is_sharp_for_late_times() -> None:
    result = contradicted(0.05).forgetting(1e5, 0.3, 0.71)
    assert result.comparison == pytest.approx(result.below, rel=1e-6)
    assert result.sub_gaussian > 5 * result.below
