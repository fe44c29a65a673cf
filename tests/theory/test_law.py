"""No warning, overflow or NaN for valid input; clear errors for invalid input. Warnings are errors in this suite."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from crystalrl import CrystalParams
from crystalrl.theory import CorrelationTimes, Crystallization, Fluctuation, Thresholds

SIGMAS = (0.0, 1e-6, 1e-4, 0.005, 0.1, 1.0)
SETTINGS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.5, 0.1), (1.0, 1.0), (1e-9, 1.0), (0.5, 1e-7))
TIMES = np.array([0.0, 1e-9, 1e-3, 1.0, 50.0, 1e4, 1e9])
STARTS = np.array([0.0, 1e-9, 0.3, 0.999, 1.0])


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize(("utility", "interference"), SETTINGS)
def test_moments_and_distributions_are_finite_everywhere(sigma: float, utility: float, interference: float) -> None:
    law = Crystallization(sigma=sigma, utility=utility, interference=interference)
    t, c0, x = TIMES[:, None, None], STARTS[None, :, None], np.array([0.0, 1e-12, 0.2, 0.7, 0.999999, 1.0])
    assert np.all((law.mean(t, c0) >= 0) & (law.mean(t, c0) <= 1 + 1e-15))
    assert np.all((law.variance(t, c0) >= 0) & (law.variance(t, c0) <= 0.25 + 1e-15))
    answer = law.cdf(x, t, c0, full_output=True)
    assert np.all((answer.value >= 0) & (answer.value <= 1))
    assert np.all(np.isfinite(answer.error))
    density = law.pdf(x, t, c0, full_output=True)
    assert np.all(density.value >= 0)
    assert not np.any(np.isnan(density.error))


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize(("utility", "interference"), SETTINGS)
def test_passages_and_forgetting_are_never_nan(sigma: float, utility: float, interference: float) -> None:
    law = Crystallization(sigma=sigma, utility=utility, interference=interference)
    tau = np.array([0.1, 0.3, 0.7, 0.99])
    for values in (law.time_to(tau, 0.5), law.mean_first_passage(tau, 0.5), law.absorption_time(STARTS)):
        assert np.all(values >= 0)
    assert not np.any(np.isnan(law.log10_mean_first_passage(tau, 0.5)))
    survival = law.survival(tau[1:3], np.array([1.0, 1e9])[:, None], 0.5)
    assert np.all((survival >= 0) & (survival <= 1))
    result = law.forgetting(np.array([1.0, 250.0, 1e9]), 0.3, 0.71)
    for name in ("below", "ever", "bound", "sub_gaussian", "cantelli", "comparison"):
        assert np.all((getattr(result, name) >= 0) & (getattr(result, name) <= 1)), name
    assert not np.any(np.isnan(result.log10_below) | np.isnan(result.log10_ever))
    assert np.all(result.ever >= np.where(result.below_method == "bound", 0, result.below) - 1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize(("utility", "interference"), SETTINGS[1:])
def test_limits_potentials_and_contents_are_defined(sigma: float, utility: float, interference: float) -> None:
    law = Crystallization(sigma=sigma, utility=utility, interference=interference)
    limit = law.stationary()
    assert 0 <= limit.mean <= 1
    share = law.occupancy()
    assert share.liquid + share.glass + share.crystal == pytest.approx(1)
    assert not np.any(np.isnan(law.potential(np.linspace(0, 1, 11)).quasi))
    assert not np.any(np.isnan(law.relaxation(STARTS).mixing_time))
    assert not np.any(np.isnan(law.contents(1.0, Thresholds(), 10.0).number))
    assert np.isfinite(law.independent_moments(Fluctuation(0.01, 0.01)).variance)
    assert np.all(law.effective_diffusion(STARTS, Fluctuation(0.01, 0.01), CorrelationTimes(1, 1)) >= 0)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("alpha", -0.1, "alpha: wanted a finite number ≥ 0"),
        ("beta", np.nan, "beta: wanted a finite number ≥ 0"),
        ("sigma", np.inf, "sigma: wanted a finite number ≥ 0"),
        ("sigma", 1e-12, "sigma: wanted 0 or at least 1e-08"),
        ("leak", -1.0, "leak: wanted a finite number ≥ 0"),
        ("utility", 1.5, r"utility: wanted a number in \[0, 1\], got 1.5"),
        ("interference", -0.5, r"interference: wanted a number in \[0, 1\]"),
    ],
)
def test_invalid_constants_are_refused_with_the_valid_range(field: str, value: float, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Crystallization(**{field: value})


def test_invalid_arguments_are_refused_with_the_valid_range() -> None:
    law = Crystallization()
    with pytest.raises(ValueError, match="t: wanted a finite number ≥ 0, got -1"):
        law.mean(-1.0, 0.5)
    with pytest.raises(ValueError, match=r"c0: wanted a number in \[0, 1\], got 1.1"):
        law.cdf(0.5, 1.0, 1.1)
    with pytest.raises(ValueError, match=r"x: wanted a number in \[0, 1\]"):
        law.pdf([0.5, 2.0], 1.0, 0.5)
    with pytest.raises(ValueError, match="tau_L: wanted a number below tau_C"):
        law.occupancy(0.7, 0.3)


def test_what_has_no_answer_is_refused_in_the_form_of_all_errors() -> None:
    still, restless = Crystallization(utility=0.0, interference=0.0), Fluctuation(0.2, 0.2)
    with pytest.raises(ValueError, match="times: wanted increasing ones, got 2 after 3"):
        Crystallization().evolve([3.0, 2.0], 0.5)
    with pytest.raises(ValueError, match="gain, loss: wanted one above 0 for stationary moments"):
        still.independent_moments(restless)
    with pytest.raises(ValueError, match=r"dt: wanted a step that contracts \(E\[R²\] < 1\), got 60 with"):
        Crystallization().independent_moments(restless, 60.0)
    with pytest.raises(ValueError, match=r"c0: wanted a number in \[0, 1\], .* got none"):
        still.stationary()


def test_constants_can_come_from_any_object_that_has_them() -> None:
    params = SimpleNamespace(alpha=0.1, beta=0.02, sigma=0.01, leak=0.001, tau_L=0.25, tau_C=0.65)
    law = Crystallization.of(params, utility=0.4, interference=0.2)
    assert law == Crystallization(0.1, 0.02, 0.01, 0.4, 0.2, 0.001)
    assert law.rates.loss == pytest.approx(0.005)


def test_the_law_of_a_memory_that_melts() -> None:
    law = Crystallization.of(CrystalParams(melt=0.5, leak=0.01), utility=0.4, interference=0.2)
    assert (law.rates.gain, law.rates.loss) == pytest.approx((0.2 * 0.4 * 0.8, 0.5 * 0.2 + 0.01))
    with pytest.raises(ValueError, match=r"utility: wanted a number in \[0, 1\], got 1.5"):
        Crystallization.of(CrystalParams(), utility=1.5, interference=0.5)


def test_per_lane_values_are_refused() -> None:
    params = SimpleNamespace(alpha=np.array([[0.1], [0.2]]), beta=0.02, sigma=0.01, leak=0.0)
    with pytest.raises(TypeError, match=r"alpha: wanted one number.*got one value per lane"):
        Crystallization.of(params)


def test_arguments_broadcast_and_scalars_stay_scalars() -> None:
    law = Crystallization(sigma=0.05)
    assert law.cdf(np.linspace(0, 1, 5), np.ones((3, 1)), np.full((2, 1, 1), 0.5)).shape == (2, 3, 5)
    assert np.ndim(law.cdf(0.5, 1.0, 0.5)) == 0
    assert law.survival([0.3, 0.7], [[1.0], [2.0]], 0.5).shape == (2, 2)


def test_the_leak_acts_like_constant_interference() -> None:
    leaky = Crystallization(leak=0.0107, interference=0.0)
    assert leaky.stationary().mean == pytest.approx(0.7, abs=1e-3)
    assert leaky.stationary().upper == "entrance"
