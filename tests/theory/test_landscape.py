"""Potentials and relaxation."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization


def test_the_start_is_forgotten_only_after_the_cut_off() -> None:
    law = Crystallization()
    relaxation = law.relaxation(0.0)
    assert relaxation.amplitude == pytest.approx(319, abs=1)
    assert relaxation.mixing_time == pytest.approx(226, abs=0.5)
    centre = law.stationary().mean
    assert law.cdf(centre, 150.0, 0.0) > 0.999
    assert law.cdf(centre, 400.0, 0.0) == pytest.approx(float(law.stationary().cdf(centre)), abs=0.01)


def test_the_gibbs_potential_gives_the_stationary_density_and_the_langevin_one_gives_the_drift() -> None:
    law = Crystallization(sigma=0.1)
    c = np.linspace(0.05, 0.95, 19)
    potential = law.potential(c)
    log_density = np.log(law.stationary().pdf(c))
    np.testing.assert_allclose(np.diff(log_density), -np.diff(potential.gibbs), rtol=1e-9)
    width = 1e-6
    slope = (law.potential(c + width).langevin - law.potential(c - width).langevin) / (2 * width)
    drift = -(law.sigma**2) * c * (1 - c) / 2 * slope
    np.testing.assert_allclose(drift, law.rates.gain * (1 - c) - law.rates.loss * c, rtol=1e-6, atol=1e-12)
    assert np.argmin(potential.quasi) == np.argmin(np.abs(c - law.stationary().mean))


def test_the_quasi_potential_needs_no_noise() -> None:
    law = Crystallization(sigma=0.0, interference=1.0)
    assert law.potential(law.stationary().mean).quasi == pytest.approx(0, abs=1e-15)
    assert law.potential(0.5).quasi > 0
