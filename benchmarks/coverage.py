"""How often 95 % intervals contain the true value, with few seeds: bootstrap intervals and those of the library.

Scores are normal, skewed (a Beta law) or bimodal (about a third of the learners fail). For the IQM, every learner has
four scores with correlation ½.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.harness.pages import table
from benchmarks.harness.results import Result, Setting
from crystalrl.study.stats import Estimate, improvement, interquartile_mean, stratified, summarise

Array = NDArray[np.float64]
SEEDS = (5, 10, 32)
ENDS = np.array([0.025, 0.975])
TASKS = 4
RESAMPLES = 1000
FEWER = 200
"""Resamples whose own standard error is computed, where that is slow."""


def bimodal(u: Array) -> Array:
    """Quantiles of a mixture: 35 % near .15, 65 % near .9."""
    failed = u < 0.35
    within = np.where(failed, u / 0.35, (u - 0.35) / 0.65).clip(1e-9, 1 - 1e-9)
    return np.where(failed, 0.15, 0.9) + 0.05 * stats.norm.ppf(within)


LAWS: dict[str, Callable[[Array], Array]] = {
    "normal": lambda u: np.asarray(stats.norm.ppf(u)),
    "skewed": lambda u: np.asarray(stats.beta.ppf(u, 0.8, 4)),
    "bimodal": bimodal,
}
SHIFTS = {"normal": 0.8, "skewed": 0.12, "bimodal": 0.08, "far apart": 2.5}
"""By how much the scores of the better row are higher."""


def draw(law: str, count: int, tasks: int, random: np.random.Generator) -> Array:
    """Scores [count, tasks]; those of one learner have correlation ½."""
    own = random.normal(size=(count, tasks))
    if tasks > 1:
        own = np.sqrt(0.5) * (own + random.normal(size=(count, 1)))
    return LAWS[law](stats.norm.cdf(own))


@dataclass(frozen=True)
class Resampled:
    """A statistic, its bootstrap values, and its values without each learner in turn, one array per sample."""

    value: float
    drawn: Array
    left_out: list[Array]

    def percentile(self) -> Array:
        return np.quantile(self.drawn, ENDS)

    def bca(self) -> Array:
        """Bias-corrected and accelerated (Efron 1987)."""
        below = (self.drawn < self.value).mean() + (self.drawn == self.value).mean() / 2
        bias = stats.norm.ppf(np.clip(below, 0.5 / len(self.drawn), 1 - 0.5 / len(self.drawn)))
        pull = np.concatenate([(each.mean() - each) / len(each) for each in self.left_out])
        scale = (pull**2).sum() ** 1.5
        moved = bias + stats.norm.ppf(ENDS)
        return np.quantile(self.drawn, stats.norm.cdf(bias + moved / (1 - (pull**3).sum() / (6 * scale or 1) * moved)))


def without_each(count: int) -> NDArray[np.int64]:
    """[count, count − 1]: all learners but one."""
    return np.array([[j for j in range(count) if j != i] for i in range(count)])


def deviation(left_out: Array) -> Array:
    """The jackknife's standard error, over the last axis."""
    n = left_out.shape[-1]
    return np.sqrt((n - 1) / n * ((left_out - left_out.mean(-1, keepdims=True)) ** 2).sum(-1))


def single(scores: Array, statistic: Callable[[Array], Array], random: np.random.Generator) -> dict[str, Array]:
    """Intervals of a statistic of one sample."""
    chosen = scores[random.integers(len(scores), size=(RESAMPLES, len(scores)))]
    keep = without_each(len(scores))
    found = Resampled(float(statistic(scores)), statistic(chosen), [statistic(scores[keep])])
    some = FEWER if scores.size > 100 else RESAMPLES
    error, errors = deviation(found.left_out[0]), deviation(statistic(chosen[:some, keep]))
    t = (found.drawn[:some] - found.value)[errors > 0] / errors[errors > 0]
    student = found.value - (np.quantile(t, ENDS[::-1]) if len(t) else np.zeros(2)) * error
    return {"percentile": found.percentile(), "BCa": found.bca(), "studentised": student}


def pair(a: Array, b: Array, random: np.random.Generator) -> dict[str, Array]:
    """Intervals of the probability of improvement."""
    wins = (a > b.T) + 0.5 * (a == b.T)
    n, m = wins.shape
    rows, columns = random.integers(n, size=(RESAMPLES, n, 1)), random.integers(m, size=(RESAMPLES, 1, m))
    left_out = [wins[without_each(n)].mean((1, 2)), wins[:, without_each(m)].mean((0, 2))]
    found = Resampled(float(wins.mean()), wins[rows, columns].mean((1, 2)), left_out)
    return {"percentile": found.percentile(), "BCa": found.bca(), "used here": ends(improvement(a, b))}


def ends(estimate: Estimate) -> Array:
    return np.array([float(estimate.low), float(estimate.high)])


def mean(scores: Array) -> Array:
    return np.asarray(scores.mean(axis=(-1, -2)))


def of_mean(law: str, count: int, random: np.random.Generator) -> dict[str, Array]:
    scores = draw(law, count, 1, random)
    ours = summarise(scores[:, 0], resamples=RESAMPLES)
    return single(scores, mean, random) | {"used here": np.array([ours.low, ours.high])}


def of_iqm(law: str, count: int, random: np.random.Generator) -> dict[str, Array]:
    scores = draw(law, count, TASKS, random)
    ours = stratified(scores, interquartile_mean, resamples=RESAMPLES)
    return single(scores, interquartile_mean, random) | {"used here": ends(ours)}


def of_improvement(law: str, count: int, random: np.random.Generator) -> dict[str, Array]:
    kind = "normal" if law == "far apart" else law
    return pair(draw(kind, count, 1, random) + SHIFTS[law], draw(kind, count, 1, random), random)


@cache
def truth(statistic: str, law: str) -> float:
    """The value for very many learners."""
    random, many = np.random.default_rng(1), 400_000
    if statistic == "mean":
        return float(draw(law, many, 1, random).mean())
    if statistic == "IQM":
        return float(interquartile_mean(draw(law, many, TASKS, random)))
    kind = "normal" if law == "far apart" else law
    return float((draw(kind, many, 1, random) + SHIFTS[law] > draw(kind, many, 1, random)).mean())


Intervals = Callable[[str, int, np.random.Generator], dict[str, Array]]
STATISTICS: dict[str, tuple[Intervals, tuple[str, ...]]] = {
    "mean": (of_mean, tuple(LAWS)),
    "IQM": (of_iqm, tuple(LAWS)),
    "P(better)": (of_improvement, tuple(SHIFTS)),
}


def row(statistic: str, law: str, seeds: int, trials: int) -> Result:
    """Coverage in percent and median width of every interval."""
    random, true = np.random.default_rng(seeds), truth(statistic, law)
    found = [STATISTICS[statistic][0](law, seeds, random) for _ in range(trials)]
    intervals = {how: np.array([each[how] for each in found]) for how in found[0]}
    return {
        "statistic": statistic, "scores": law, "seeds": seeds, "truth": true, "trials": trials,
        "coverage": {how: 100 * float(((x[:, 0] <= true) & (true <= x[:, 1])).mean()) for how, x in intervals.items()},
        "width": {how: float(np.median(x[:, 1] - x[:, 0])) for how, x in intervals.items()},
    }  # fmt: skip


def measure(setting: Setting) -> Iterator[Result]:
    trials = 20 if setting.quick else 500
    result: Result = {"rows": []}
    for statistic, (_, laws) in STATISTICS.items():
        for law in laws:
            result["rows"] += [row(statistic, law, seeds, trials) for seeds in SEEDS]
            yield result


HOW = ("percentile", "BCa", "studentised", "used here")


def block(result: Result) -> str:
    rows = result["rows"]
    kinds = dict.fromkeys((each["statistic"], each["scores"]) for each in rows)
    lines = [_line([each for each in rows if (each["statistic"], each["scores"]) == kind]) for kind in kinds]
    head = ["statistic, scores", *HOW, "width, studentised", "width, used here"]
    trials, seeds = f"{rows[0]['trials']:,}", " / ".join(map(str, SEEDS))
    note = (
        f"Percent of {trials} trials in which the 95 % interval contains the true value, with {seeds} seeds. Width: "
        f"median with {SEEDS[0]} seeds, relative to the percentile interval."
    )
    return f"{table(head, lines)}\n\n{note}"


def _line(mine: list[Result]) -> list[str]:
    """Coverage of every interval for all numbers of seeds; relative widths for the fewest."""
    few = mine[0]["width"]
    covered = [
        " / ".join(f"{each['coverage'][how]:.0f}" for each in mine) if how in mine[0]["coverage"] else "–"
        for how in HOW
    ]
    plain = few["percentile"]  # 0 if all learners of one row usually beat all of the other
    widths = [(f"{few[how] / plain:.1f}" if plain else "∞") if how in few else "–" for how in HOW[2:]]
    return [f"{mine[0]['statistic']}, {mine[0]['scores']}", *covered, *widths]
