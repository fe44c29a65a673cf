"""Spectral sums: the recurrence against Gauss nodes, the sum against explicit Jacobi polynomials of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from crystalrl.theory.rates import Rates
from crystalrl.theory.series import Expansion, deviations, least_terms, recurrence, spectral_sum, spread

from .oracles import rates

SHAPES = [(0.5, 0.5), (1.0, 1.0), (4.0, 1.5), (30.0, 0.5), (0.05, 2.0)]


def jacobi(n: int, shapes: tuple[float, float], x: np.ndarray) -> np.ndarray:
    """The polynomial of degree n, orthonormal for Beta(shapes); the norm by Gauss–Jacobi quadrature."""
    alpha, beta = shapes[1] - 1, shapes[0] - 1
    nodes, weights = special.roots_jacobi(n + 2, alpha, beta)
    norm = np.sum(weights * special.eval_jacobi(n, alpha, beta, nodes) ** 2) / np.sum(weights)
    return special.eval_jacobi(n, alpha, beta, 2 * x - 1) / np.sqrt(norm)


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_recurrence_has_the_gauss_nodes_as_its_eigenvalues(shapes: tuple[float, float]) -> None:
    diagonal, off = recurrence(8, shapes)
    matrix = np.diag(diagonal[:8]) + np.diag(off[1:8], 1) + np.diag(off[1:8], -1)
    nodes, _ = special.roots_jacobi(8, shapes[1] - 1, shapes[0] - 1)
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix), (nodes + 1) / 2, atol=1e-12)
    assert off[0] == 0


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_sum_is_that_of_explicit_polynomials(shapes: tuple[float, float]) -> None:
    law: Rates = rates(*shapes, sigma=0.5)
    c0, x, t = np.array([0.2, 0.7]), np.array([0.4, 0.65]), np.array([6.0, 9.0])
    plain = Expansion(shapes, shapes, first=0, left_start=0, right_start=0, scale=None)
    found = spectral_sum(plain, law, c0, x, t, np.zeros(2))
    terms = [np.exp(-law.eigenvalue(n) * t) * jacobi(n, shapes, c0) * jacobi(n, shapes, x) for n in range(30)]
    np.testing.assert_allclose(found.value, np.sum(terms, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.largest, np.max(np.abs(terms), axis=0), rtol=1e-9)
    assert found.converged.all()


def test_a_sum_can_start_at_a_later_term_and_scale_its_terms() -> None:
    shapes, other = (4.0, 1.5), (5.0, 2.5)
    law = rates(*shapes, sigma=0.5)
    c0, x, t = np.array([0.2]), np.array([0.4]), np.array([6.0])
    shifted = Expansion(shapes, other, first=1, left_start=1, right_start=0, scale=0.3)
    wanted = sum(
        np.sqrt(0.3 / law.eigenvalue(n))
        * np.exp(-law.eigenvalue(n) * t)
        * jacobi(n, shapes, c0)
        * jacobi(n - 1, other, x)
        for n in range(1, 30)
    )
    np.testing.assert_allclose(spectral_sum(shifted, law, c0, x, t, np.zeros(1)).value, wanted, rtol=1e-9)


def test_where_the_sum_does_not_converge_it_says_so() -> None:
    law = rates(4.0, 1.5, sigma=0.5)
    plain = Expansion((4.0, 1.5), (4.0, 1.5), 0, 0, 0, None)
    times = np.array([1e-9, 6.0])
    assert spectral_sum(plain, law, np.full(2, 0.2), np.full(2, 0.4), times, np.zeros(2)).converged.tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("shapes", SHAPES)
def test_distances_are_in_standard_deviations_of_the_beta_distribution(shapes: tuple[float, float]) -> None:
    law = stats.beta(*shapes)
    assert spread(shapes) == pytest.approx((law.mean(), law.std()))
    points = law.mean() + law.std() * np.array([-2.0, 0.0, 3.0])
    np.testing.assert_allclose(deviations(points, shapes), [2, 0, 3], atol=1e-9)


def test_no_sum_stops_before_its_largest_term() -> None:
    """From a start far outside the stationary law the terms grow first; the bound lies beyond their maximum."""
    shapes = (200.0, 40.0)
    law = rates(*shapes, sigma=0.1)
    t = 2.0 / law.rate
    c0, x = np.array([0.3]), np.array([0.75])
    sizes = [
        float(np.abs(np.exp(-law.eigenvalue(n) * t) * jacobi(n, shapes, c0) * jacobi(n, shapes, x))[0])
        for n in range(80)
    ]
    away = deviations(law.target + (c0 - law.target) * np.exp(-2.0), shapes)
    assert 1 < int(np.argmax(sizes)) <= float(least_terms(away, deviations(x, shapes))[0])
