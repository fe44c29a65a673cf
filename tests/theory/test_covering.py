"""The covering radius and the value error bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import spatial

from crystalrl.theory import covering, value_error_bound
from crystalrl.theory.covering import shrinkage


@pytest.mark.parametrize(("dimension", "slope"), [(2, -0.5), (3, -0.32), (4, -0.26), (8, -0.12)])
def test_the_covering_radius_shrinks_more_slowly_in_higher_dimensions(dimension: int, slope: float) -> None:
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
    with pytest.raises(ValueError, match="nearest: wanted one distance per probe"):
        covering(np.zeros((4, 2)), lambda x: np.zeros((4, 1)))
