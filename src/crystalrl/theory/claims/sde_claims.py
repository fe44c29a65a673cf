"""Claims about the stochastic differential equation: well-posedness, averaging, stationary law, convergence."""

from __future__ import annotations

import numpy as np

from crystalrl.theory import moments
from crystalrl.theory.claims.claim import DEFAULT, THRESHOLDS, Claim, Place, contradicted
from crystalrl.theory.fluctuations import CorrelationTimes, Fluctuation
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import paper_averaging_error, paper_uniform_variance_bound, paper_variance_bound

BERNOULLI = Fluctuation(interference_variance=0.09)
NO_INTERFERENCE = Crystallization(interference=0.0)


def _uniqueness() -> str:
    rates = Crystallization(sigma=0.5, alpha=0.5, beta=0.5, interference=0.5).rates
    rng, dt = np.random.default_rng(0), 0.002
    low, high = np.full(2000, 0.5), np.full(2000, 0.6)
    for _ in range(1000):
        noise = rng.standard_normal(2000) * np.sqrt(dt)
        low, high = (
            np.clip(c + dt * (rates.gain * (1 - c) - rates.loss * c) + rates.sigma * np.sqrt(c * (1 - c)) * noise, 0, 1)
            for c in (low, high)
        )
    kept = float(np.mean(high - low)) / 0.1
    return f"two starts with the same noise converge: gap ×{kept:.3f} at t = 2, e^(−2λ) = {np.exp(-2 * rates.rate):.3f}"


def _inward() -> str:
    edge = [(law.rates.gain, 0.0 - law.rates.loss) for law in (DEFAULT, NO_INTERFERENCE)]
    return (
        f"drift at 0 and 1: {edge[0][0]:+.4f}, {edge[0][1]:+.4f} (Ī = .1); {edge[1][0]:+.4f}, {edge[1][1]:+.4f} (I = 0)"
    )


def _absorption() -> str:
    times = [float(Crystallization(utility=u, interference=0.0).absorption_time(0.0)) for u in (1.0, 0.5, 0.1)]
    mean = " / ".join(f"{t:.1f}" for t in times)
    hit = 1 - float(NO_INTERFERENCE.cdf(1 - 1e-15, 300.0, 0.0))
    return (
        f"I = 0: c = 1 is reached after {mean} consolidations on average (U = 1/.5/.1); by 300 with P = {hit:.5f} at .5"
    )


def _hit() -> str:
    law = Crystallization(sigma=0.05)
    limit = law.stationary()
    shapes = limit.shapes or (0.0, 0.0)
    time = float(law.mean_first_passage(1.0, limit.mean))
    return (
        f"σ = .05: B = {shapes[1]:.1f}, and from c* the end c = 1 is reached after {time:.0f} consolidations on average"
    )


def _averaging() -> str:
    ratio = DEFAULT.independent_moments(BERNOULLI).variance / DEFAULT.stationary().variance
    frozen = DEFAULT.frozen([0.5, 0.5], [0.0, 1.0], [0.9, 0.1])
    worst = frozen.moments().variance / DEFAULT.stationary().variance
    claimed = paper_averaging_error()
    return (
        f"ε ≥ λ = {DEFAULT.rates.rate:.4f}, {DEFAULT.rates.rate / claimed:.0f}× the claimed {claimed:.0e}; variance "
        f"×{ratio:.1f} if I is redrawn each step, ×{worst:.0f} with P[c = 1] = {frozen.atom(1.0):.1f} if frozen"
    )


def _fluctuation_against_noise() -> str:
    step = CorrelationTimes(0.5, 0.5)
    intrinsic = float(DEFAULT.effective_diffusion(0.98, Fluctuation(), step))
    total = float(DEFAULT.effective_diffusion(0.98, BERNOULLI, step))
    return f"at c = .98 interference adds {total - intrinsic:.1e} per step to an intrinsic {intrinsic:.1e}"


def _density() -> str:
    law = Crystallization(sigma=0.05)
    solution = law.evolve([60.0], 0.1)
    x = np.linspace(0.3, 0.98, 30)
    gap = float(np.abs(solution.cdf(x)[0] - law.cdf(x, 60.0, 0.1)).max())
    return f"zero-flux finite volumes and the Jacobi series differ by {gap:.0e}; with I = 0 an atom must be added"


def _beta() -> str:
    law = DEFAULT.stationary()
    shapes = law.shapes or (0.0, 0.0)
    return f"A = {shapes[0]:.0f}, B = {shapes[1]:.0f}, c* = {law.mean:.5f}; with I = 0 the limit is an atom at 1"


def _gap() -> str:
    relaxation = DEFAULT.relaxation(0.0)
    return (
        f"spectral gap = λ = {relaxation.rate:.4f} exactly, with prefactor {float(relaxation.amplitude):.0f}: "
        f"mixing takes {float(relaxation.mixing_time):.0f} consolidations, not {1 / relaxation.rate:.0f}"
    )


def _occupancy() -> str:
    outside = float(DEFAULT.stationary().log10_cdf(THRESHOLDS[1]))
    return f"1 − π_C = 10^{outside:.1f} at the defaults"


def _mean() -> str:
    rates = DEFAULT.rates
    return f"m(49.09) = {float(DEFAULT.mean(49.08876346, 0.0)):.6f} = τ_C; λ = {rates.rate:.4f}"


def _almost_sure() -> str:
    return (
        f"U = .5, I = 1: c keeps moving with standard deviation {np.sqrt(contradicted(0.5).stationary().variance):.4f}"
    )


def _variance_equation() -> str:
    rates = DEFAULT.rates
    t, width = 43.0, 1e-3
    slope = float(moments.variance(rates, t + width, 0.0) - moments.variance(rates, t - width, 0.0)) / (2 * width)
    m, v = float(moments.mean(rates, t, 0.0)), float(moments.variance(rates, t, 0.0))
    residual = slope + (2 * rates.rate + rates.noise) * v - rates.noise * m * (1 - m)
    return f"at t = 43 dv/dt = {slope:.3e}, and the two sides agree to 1e-12: {abs(residual) < 1e-12}"


def _first_inequality() -> str:
    ratio = float(DEFAULT.variance(43.0, 0.0) / paper_variance_bound(DEFAULT.rates, 43.0))
    alone = float(NO_INTERFERENCE.variance(30.0, 0.0))
    return f"exceeded ×{ratio:.1f} at t = 43 from c0 = 0; with I = 0 it is 0 while v(30) = {alone:.2e}"


def _second_inequality() -> str:
    law = contradicted(0.5)
    t = np.arange(0.0, 300.0)
    known = max(float(np.max(law.variance(t, c0))) for c0 in np.linspace(0, 1, 21))
    late = int(np.argmax(law.variance(t, 0.5, 0.25) <= paper_uniform_variance_bound(law.rates)))
    largest = known / paper_uniform_variance_bound(law.rates)
    return f"largest v/bound from known starts: {largest:.3f}; from v(0) = ¼ it holds only from t = {late} on"


CLAIMS = (
    Claim(
        Place("Thm wellposed (i)", "III-C", 312, "has a unique strong solution"),
        "a unique strong solution exists from every start",
        "true",
        _uniqueness,
        "the proof needs Yamada–Watanabe: √(c(1−c)) is only ½-Hölder, the cited theorem asks for Lipschitz",
    ),
    Claim(
        Place("Thm wellposed (ii)", "III-C", 314, "The interval $[0,1]$ is positively invariant"),
        "[0, 1] is invariant",
        "true",
        _inward,
        "drift ≥ 0 at 0 and ≤ 0 at 1 suffices; it is not 'strictly inward' if U = 0 or I = 0",
    ),
    Claim(
        Place(
            "Thm wellposed, proof", "III-C", 340, r"Both boundaries are \emph{entrance boundaries} in the Feller sense"
        ),
        "both ends are entrance boundaries, reached with probability 0",
        "false",
        _absorption,
        "shape ≥ 1 entrance, in (0, 1) regular, 0 exit (absorbing): law.stationary().lower / .upper",
    ),
    Claim(
        Place("Prop. averaging", "III-D", 398, r"In our setting, $\varepsilon\approx1/5000$"),
        "fluctuating U and I may be replaced by their averages, error 2e-4",
        "false",
        _averaging,
        "depending on the correlation time: law.independent_moments, law.effective_diffusion, law.frozen",
    ),
    Claim(
        Place("Prop. averaging, size", "III-D", 400, "This is negligible for the stationary distribution analysis"),
        "the averaging error is negligible for the stationary law",
        "false",
        _fluctuation_against_noise,
        "D_eff(c) = σ²c(1−c) + 2τ_Uα²Var(U)(1−c)² + 2τ_Iβ²Var(I)c²",
    ),
    Claim(
        Place("Thm fp", "III-D", 418, "evolves on the slow crystallization timescale as"),
        "the density solves the Fokker–Planck equation",
        "conditional",
        _density,
        "needs constant rates, zero flux and A, B > 0; it describes one experience, not the population",
    ),
    Claim(
        Place("Thm stationary", "III-D", 455, r"The Fokker--Planck equation \eqref{eq:fp} admits a unique stationary"),
        "σ > 0 gives a unique Beta(A, B)",
        "conditional",
        _beta,
        "needs A, B > 0 as well",
    ),
    Claim(
        Place("Thm stationary, proof", "III-D", 475, "pushed away from each endpoint and never reaches them"),
        "with Ū, Ī > 0 neither end is ever reached",
        "conditional",
        _hit,
        "needs A, B ≥ 1; σ = .05 is a value of Table sensitivity",
    ),
    Claim(
        Place(
            "Thm stationary, convergence", "III-D", 519, r"near the stationary mean), giving exponential convergence"
        ),
        "L¹ convergence at some exponential rate",
        "conditional",
        _gap,
        "eigenvalues nλ + n(n−1)σ²/2; law.relaxation gives the cut-off",
    ),
    Claim(
        Place(
            "Cor. occupancy", "III-D", 526, r"fraction of time a \emph{single} experience $e_i$ spends in each phase"
        ),
        "phase shares are incomplete Beta functions",
        "conditional",
        _occupancy,
        "needs phases decided by c alone; buffers with hysteresis differ",
    ),
    Claim(
        Place("Thm exp_conv (i, ii)", "III-E", 574, r"This is a linear ODE with decay rate $\lambda_i$"),
        "the mean converges at rate λ",
        "true",
        _mean,
        "exact, not only a bound",
    ),
    Claim(
        Place(
            "Remark rm_verified",
            "V-A",
            1032,
            r"$c_i(t)\to c_i^*$ a.s.",
            ((72, "convergence of individual crystallization states to their fixed points"),),
        ),
        "c itself converges to c*, almost surely",
        "false",
        _almost_sure,
        "only the mean converges; c is ergodic unless σ = 0, I = 0 or U = 0",
    ),
    Claim(
        Place("Thm exp_conv (iii), equation", "III-E", 581, "(iii) Variance dynamics."),
        "the variance solves the stated equation",
        "true",
        _variance_equation,
        "law.variance solves it exactly",
    ),
    Claim(
        Place("Thm exp_conv (iii), first bound", "III-E", 560, r"\operatorname{Var}[c_i(t)]\le"),
        "Var ≤ σ²c*(1−c*)(1−e^(−2λt))/2λ",
        "false",
        _first_inequality,
        "law.variance; the bound needs c0 ≥ c* ≥ ½ or c0 ≤ c* ≤ ½",
    ),
    Claim(
        Place("Thm exp_conv (iii), second bound", "III-E", 601, r"Since $v(0)\le1/4$ (variance of"),
        "Var ≤ σ²/8λ for every start",
        "conditional",
        _second_inequality,
        "holds from a known start; otherwise v0 e^(−kt) + σ²(1−e^(−kt))/4k, k = 2λ+σ²",
    ),
)
