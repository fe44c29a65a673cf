"""Little's law, the covering radius and the error bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import spatial

from crystalrl.theory import Crystallization, Thresholds, covering, selectivity, value_error_bound
from crystalrl.theory.covering import shrinkage


def test_little_gives_the_contents_and_mean_states_of_each_phase() -> None:
    contents = Crystallization(interference=0.0).contents(200.0, Thresholds(), crystal_time=100.0)
    assert contents.number[0] == pytest.approx(2854, rel=0.01)
    assert contents.mean[:2] == pytest.approx((0.159, 0.528), abs=1e-3)
    assert contents.number[2] == 200 * 100


def test_a_law_that_settles_in_glass_never_fills_the_crystal() -> None:
    contents = Crystallization(utility=0.1, interference=1.0).contents(1.0, Thresholds(), 10.0)
    assert contents.time[1] == np.inf
    assert contents.number[2] == 0


def test_selectivity_of_the_paper_settings() -> None:
    liquid = 0.625 * np.array([1e4, 1e5, 1e6])
    np.testing.assert_allclose(selectivity(0.05, 0.3, 200, liquid), [0.228, 0.0228, 0.00228], rtol=0.01)


@pytest.mark.parametrize(("dimension", "slope"), [(2, -0.5), (3, -0.32), (4, -0.26), (8, -0.12)])
def test_the_covering_radius_shrinks_with_the_dimension(dimension: int, slope: float) -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([200, 800, 3200, 12_800])
    radii = []
    for size in sizes:
        trees = [spatial.cKDTree(rng.random((size, dimension))) for _ in range(3)]
        probes = rng.random((6000, dimension))
        radii.append(np.mean([covering(probes, lambda x, tree=tree: tree.query(x)[0]).mean for tree in trees]))
    assert shrinkage(np.array(radii), sizes) == pytest.approx(slope, abs=0.03)


def test_the_error_bound_covers_a_value_function_learned_from_nearest_neighbours() -> None:
    rng = np.random.default_rng(0)
    stored = rng.random((400, 2))
    tree = spatial.cKDTree(stored)
    probes = rng.random((5000, 2))

    def value(x: np.ndarray) -> np.ndarray:
        return np.sin(3 * x[:, 0]) + np.cos(2 * x[:, 1])

    lipschitz = np.sqrt(9 + 4)
    result = covering(probes, lambda x: tree.query(x)[0])
    error = np.abs(value(probes) - value(stored[tree.query(probes)[1]])).max()
    assert error <= value_error_bound(result.radius, lipschitz, 0.0, 0.0)
    assert value_error_bound(result.radius, lipschitz, 0.9, 0.1) == pytest.approx(
        (lipschitz * result.radius + 0.1) * 10
    )


def test_a_query_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="one distance per probe"):
        covering(np.zeros((4, 2)), lambda x: np.zeros((4, 1)))
