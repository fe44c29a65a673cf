"""Claims of the experimental section, checked against the paper's own printed numbers."""

from __future__ import annotations

import numpy as np
from scipy import stats

from crystalrl.theory.claims.claim import Claim

SEEDS = 50
# Printed values of the Meta-World table: average performance, forward and backward transfer, each with its standard
# deviation, and MB. * marks memory-matched rows.
META = {
    "VR": ((62.3, 5.1), (3.2, 1.8), (-31.4, 4.2), 1000),
    "PER": ((68.7, 4.3), (5.7, 2.1), (-24.1, 3.9), 1000),
    "HER": ((71.2, 3.8), (8.4, 2.4), (-21.3, 3.5), 1000),
    "NEC": ((64.5, 5.7), (4.1, 2.3), (-28.7, 4.8), 1500),
    "PackNet": ((73.8, 3.2), (9.2, 1.9), (-8.4, 2.1), 5000),
    "PNN": ((76.4, 2.9), (11.3, 1.7), (-2.1, 1.3), 5000),
    "EWC": ((69.1, 4.6), (6.8, 2.2), (-19.7, 3.7), 1000),
    "AMC": ((81.7, 2.4), (15.2, 1.5), (-6.3, 1.8), 380),
    "VR*": ((55.8, 5.8), (2.1, 1.7), (-34.2, 4.6), 380),
    "PER*": ((63.6, 4.7), (4.8, 2.0), (-26.3, 4.1), 380),
    "EWC*": ((64.2, 5.0), (5.9, 2.1), (-22.1, 3.8), 380),
}
PRINTED_EFFICIENCY = {
    "VR": 0.062, "PER": 0.069, "HER": 0.071, "NEC": 0.043, "PackNet": 0.015, "PNN": 0.015,
    "EWC": 0.069, "AMC": 0.215, "VR*": 0.147, "PER*": 0.167, "EWC*": 0.169,
}  # fmt: skip
ABLATION = {
    "full": 81.7,
    "no crystallization": 68.7,
    "no rate gate": 74.1,
    "single buffer": 70.4,
    "no noise": 80.5,
    "random V": 78.9,
    "no V": 80.1,
}


def cohen(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Cohen's d with the pooled standard deviation of two groups of equal size."""
    return (first[0] - second[0]) / float(np.sqrt((first[1] ** 2 + second[1] ** 2) / 2))


def welch(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Welch's t and p from printed means and standard deviations."""
    result = stats.ttest_ind_from_stats(*first, SEEDS, *second, SEEDS, equal_var=False)
    return float(result.statistic), float(result.pvalue)


def _efficiency() -> str:
    off = max(abs(META[name][0][0] / META[name][3] - value) for name, value in PRINTED_EFFICIENCY.items())
    return f"largest difference between AP/MB and the printed column: {off:.4f}"


def _best_fixed() -> str:
    gains = {name: META["AMC"][0][0] - META[name][0][0] for name in ("PER", "HER", "PNN")}
    relative = gains["PNN"] / META["PNN"][0][0]
    return (
        f"+{gains['PER']:.1f} over PER, +{gains['HER']:.1f} over HER (the best), +{gains['PNN']:.1f} over PNN "
        f"= {relative:.1%}"
    )


def _matched() -> str:
    return f"PER +{81.7 - 63.6:.1f}, EWC +{81.7 - 64.2:.1f}"


def _effect_sizes() -> str:
    amc = META["AMC"][0]
    return (
        f"Cohen's d: PER {cohen(amc, META['PER'][0]):.2f} (printed 2.3), PNN {cohen(amc, META['PNN'][0]):.2f} "
        "(printed 1.9)"
    )


def _backward() -> str:
    t, p = welch(META["AMC"][2], META["PNN"][2])
    return f"PNN −2.1 is better than AMC −6.3: t = {t:.1f}, p = {p:.0e}"


def _reduction() -> str:
    values = {name: 1 - META["AMC"][2][0] / META[name][2][0] for name in ("VR", "EWC", "HER", "PackNet", "PNN")}
    return ", ".join(f"{name} {value:.1%}" for name, value in values.items())


def _efficiency_gain() -> str:
    def gain(name: str) -> float:
        return PRINTED_EFFICIENCY["AMC"] / (META[name][0][0] / META[name][3])

    same = [gain(name) for name in ("VR*", "PER*", "EWC*")]
    other = [gain(name) for name in ("VR", "PER", "HER", "EWC")]
    return (
        f"{min(other):.2f}–{max(other):.2f}× with AMC at 380 MB; at equal memory "
        f"{min(same):.2f}–{max(same):.2f}×; PNN {gain('PNN'):.2f}×"
    )


def _transfer() -> str:
    return f"FT {15.2 / 11.3 - 1:.1%} over PNN, {22.4 / 15.7 - 1:.1%} over PackNet (Atari)"


def _significance() -> str:
    worst = 0.0
    for name, row in META.items():
        if name != "AMC":
            worst = max(worst, *(welch(META["AMC"][k], row[k])[1] for k in range(3)))  # type: ignore[arg-type]
    return f"the largest of the 30 p-values from the printed numbers is {worst:.1e}"


def _atari() -> str:
    return (
        f"AP {201 / 187 - 1:.1%}, forgetting {1 - 9.7 / 12.4:.0%} lower, d = "
        f"{cohen((201, 11), (187, 12)):.2f} (printed 1.1)"
    )


def _mujoco() -> str:
    return (
        f"return {5892 / 4567 - 1:.0%} over EWC, d = {cohen((5892, 198), (4567, 245)):.2f} (printed 4.7); "
        f"loss {1 - 14 / 75:.1%} below VR, {1 - 14 / 36:.0%} below EWC"
    )


def _task_one() -> str:
    return (
        f"AMC's own mean backward transfer is {META['AMC'][2][0]}, its MuJoCo Task-1 loss {100 - 86} %; 31.4 is VR's "
        "average, not its Task 1"
    )


def _memory() -> str:
    return f"{1 - 380 / 1000:.0%} from the printed sizes"


def _ablation_row() -> str:
    return (
        f"'no crystallization' {ABLATION['no crystallization']} ± 4.3, −24.1 ± 3.9 equals the PER row in all "
        "four numbers"
    )


def _ablation_order() -> str:
    loss = {name: ABLATION["full"] - value for name, value in ABLATION.items() if name != "full"}
    return ", ".join(f"{name} −{value:.1f}" for name, value in sorted(loss.items(), key=lambda item: -item[1]))


def _noise() -> str:
    t, p = welch((81.7, 2.4), (80.5, 2.5))
    return f"σ = 0 costs 1.2 (t = {t:.1f}, p = {p:.3f} uncorrected); there are no local optima to escape (one minimum)"


def _random_value() -> str:
    return (
        f"random V costs {81.7 - 78.9:.1f}, no V {81.7 - 80.1:.1f}: noise hurts; it does not show that neighbours help"
    )


def _forward_transfer() -> str:
    return (
        "zero-shot minus trained-from-scratch is positive only if no training beats training; the baseline "
        "must be untrained"
    )


def _novelty_text() -> str:
    return f"rare pairs have high N: e^(−1/50) = {np.exp(-1 / 50):.2f} against e^(−100/50) = {np.exp(-2):.2f}"


CLAIMS = (
    Claim("Table metaworld, ME", "the efficiency column is AP/MB", "true", _efficiency, "—"),
    Claim(
        "Meta-World, +6.9 pp",
        "6.9 pp over the best fixed-budget baseline, PER",
        "false",
        _best_fixed,
        "+10.5 over HER; 6.9 is a relative %",
    ),
    Claim(
        "Meta-World, matched",
        "+18.1 pp over PER at equal memory",
        "true",
        _matched,
        "EWC is the stronger baseline there",
    ),
    Claim("Meta-World, effect sizes", "d = 2.3 and 1.9", "false", _effect_sizes, "—"),
    Claim("Table metaworld, bold BT", "AMC forgets least", "false", _backward, "PNN forgets three times less"),
    Claim(
        "Table summary, 67 %",
        "67 % less forgetting than the best",
        "false",
        _reduction,
        "68 % is against EWC; the best is PNN",
    ),
    Claim(
        "Meta-World, 2.7–3.5×",
        "efficiency gain at the same 1000 MB",
        "false",
        _efficiency_gain,
        "1.27–1.46× at equal memory",
    ),
    Claim("Abstract, 34–43 %", "forward transfer improves by 34–43 %", "true", _transfer, "—"),
    Claim(
        "Table metaworld, p",
        "all differences p < 1e-4 after Holm",
        "true",
        _significance,
        "in the wrong direction for BT against PNN",
    ),
    Claim("Table atari", "+7.5 %, 22 %, d = 1.1", "true", _atari, "d is slightly larger"),
    Claim(
        "Table mujoco",
        "29 %, d = 4.7, 80 % less loss than the strongest",
        "conditional",
        _mujoco,
        "80 % is against VR, not the strongest",
    ),
    Claim("Discussion, 1.2 %", "Task 1 degrades by at most 1.2 %", "unverifiable", _task_one, "contradicts the tables"),
    Claim("Abstract, 62 %", "62 % less memory", "true", _memory, "see the row on memory size"),
    Claim(
        "Table ablation, row 2",
        "a separate run without crystallization",
        "unverifiable",
        _ablation_row,
        "identical to PER",
    ),
    Claim(
        "Ablation, order", "the rate gate is the next largest factor", "false", _ablation_order, "the single buffer is"
    ),
    Claim("Ablation, noise", "noise helps to escape local optima", "false", _noise, "—"),
    Claim(
        "Ablation, random V",
        "the neighbour structure drives V",
        "unverifiable",
        _random_value,
        "compare with a shuffled V of equal noise",
    ),
    Claim(
        "Metric FT",
        "zero-shot minus scratch performance",
        "underspecified",
        _forward_transfer,
        "against random initialisation",
    ),
    Claim("Interpretation", "rarely visited states have low novelty", "false", _novelty_text, "they have high novelty"),
)
