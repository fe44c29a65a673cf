"""Claims about the benchmarks, checked against the paper's own printed numbers."""

from __future__ import annotations

import numpy as np
from scipy import stats

from crystalrl.theory.claims.claim import Claim, Place
from crystalrl.theory.printed import SEEDS, Line, tables

Pair = tuple[float, float]


def _transfer_row(line: Line, last: str) -> tuple[Pair, Pair, Pair, float]:
    """AP, FT and BT with their standard deviations, and another number."""
    one, two, three = (line.numbers[metric].pair for metric in ("AP", "FT", "BT"))
    return one, two, three, line.numbers[last].value


_MATCHED = {f"{name}*": line for name, line in tables()["matched"].rows.items() if name != "AMC"}
_LINES = {**tables()["metaworld"].rows, **_MATCHED}
META = {name: _transfer_row(line, "MB") for name, line in _LINES.items()}
"""Table metaworld: average performance, forward and backward transfer, and MB. * marks memory-matched rows."""
PRINTED_EFFICIENCY = {name: line.numbers["ME"].value for name, line in _LINES.items()}
ATARI = {name: _transfer_row(line, "above human") for name, line in tables()["atari"].rows.items()}
"""Table atari: average performance, forward and backward transfer, games above human level."""
MUJOCO = {
    name: (line.numbers["return"].pair, line.numbers["task-1 retention"].value)
    for name, line in tables()["mujoco"].rows.items()
}
"""Table mujoco: return, and retention of the first task in %."""


def cohen(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Cohen's d with the pooled standard deviation of two groups of equal size."""
    return (first[0] - second[0]) / float(np.sqrt((first[1] ** 2 + second[1] ** 2) / 2))


def welch(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Welch's t and p from printed means and standard deviations."""
    result = stats.ttest_ind_from_stats(*first, SEEDS, *second, SEEDS, equal_var=False)
    return float(result.statistic), float(result.pvalue)


def rounded_range(first: tuple[float, float], second: tuple[float, float], unit: float) -> tuple[float, float]:
    """Smallest and largest Cohen's d of numbers that are printed like these after rounding to multiples of `unit`."""
    half, gap = unit / 2, abs(first[0] - second[0])
    low, high = (float(np.hypot(first[1] + s * half, second[1] + s * half) / np.sqrt(2)) for s in (-1, 1))
    return (gap - unit) / high, (gap + unit) / low


def effect(first: tuple[float, float], second: tuple[float, float], unit: float, printed: float) -> str:
    """Cohen's d, its range given the rounding, and whether the printed value can be meant."""
    low, high = rounded_range(first, second, unit)
    possible = low - 0.05 <= printed < high + 0.05
    word = "possible" if possible else "not possible"
    return f"d = {abs(cohen(first, second)):.2f}, {low:.2f}–{high:.2f} given the rounding: {printed} is {word}"


def _strongest() -> str:
    return effect(META["AMC"][0], META["PNN"][0], 0.1, 1.9)


def _over_per() -> str:
    return effect(META["AMC"][0], META["PER"][0], 0.1, 2.3)


def _over_packnet() -> str:
    return effect(ATARI["AMC"][0], ATARI["PackNet"][0], 1, 1.1)


def _over_ewc() -> str:
    return effect(MUJOCO["AMC"][0], MUJOCO["EWC"][0], 1, 4.7)


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
    gains = {name: META["AMC"][0][0] - META[f"{name}*"][0][0] for name in ("PER", "EWC")}
    return ", ".join(f"{name} +{gain:.1f}" for name, gain in gains.items())


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
    world, atari = META["AMC"][1][0] / META["PNN"][1][0], ATARI["AMC"][1][0] / ATARI["PackNet"][1][0]
    return f"FT {world - 1:.1%} over PNN, {atari - 1:.1%} over PackNet (Atari)"


def _significance() -> str:
    others = [row for name, row in META.items() if name != "AMC"]
    worst = max(welch(ours, theirs)[1] for row in others for ours, theirs in zip(META["AMC"][:3], row[:3], strict=True))
    return f"the largest of the 30 p-values from the printed numbers is {worst:.1e}"


def _forgetting_range() -> str:
    world, atari = (1 - table["AMC"][2][0] / table[name][2][0] for table, name in ((META, "PNN"), (ATARI, "PackNet")))
    lost = {name: 100 - row[1] for name, row in MUJOCO.items()}
    return (
        f"Table summary has 22 % for Atari as well; against the strongest of each benchmark: {world:.0%}, {atari:.0%}, "
        f"{1 - lost['AMC'] / lost['EWC']:.0%}"
    )


def _atari() -> str:
    gain, forgetting = ATARI["AMC"][0][0] / ATARI["PackNet"][0][0] - 1, 1 - ATARI["AMC"][2][0] / ATARI["PackNet"][2][0]
    return f"AP {gain:.1%}, forgetting {forgetting:.0%} lower than PackNet"


def _above_human() -> str:
    ours, theirs = int(ATARI["AMC"][3]), int(ATARI["PackNet"][3])
    p = float(stats.fisher_exact([[ours, 20 - ours], [theirs, 20 - theirs]]).pvalue)
    return f"no scores per game are published; {ours} against {theirs} of 20: Fisher's p = {p:.2f}"


def _mujoco() -> str:
    gain = MUJOCO["AMC"][0][0] / MUJOCO["EWC"][0][0] - 1
    lost = {name: 100 - row[1] for name, row in MUJOCO.items()}
    return (
        f"return {gain:.0%} over EWC; loss {1 - lost['AMC'] / lost['VR']:.1%} below VR, "
        f"{1 - lost['AMC'] / lost['EWC']:.0%} below EWC, the strongest"
    )


def _memory() -> str:
    return f"{1 - META['AMC'][3] / META['PER'][3]:.0%} from the printed sizes"


CLAIMS = (
    Claim(
        Place("Table metaworld, ME", "VI-B", 1356, r"VR      & 62.3{\footnotesize$\pm$5.1}"),
        "the efficiency column is AP/MB",
        "true",
        _efficiency,
        "—",
    ),
    Claim(
        Place("Meta-World, +6.9 pp", "VI-B", 1375, r"AMC improves AP by 6.9\,pp over the best fixed-budget baseline"),
        "6.9 pp over the best fixed-budget baseline, PER",
        "false",
        _best_fixed,
        "+10.5 over HER; 6.9 is a relative %",
    ),
    Claim(
        Place("Meta-World, matched", "VI-A", 1310, r"AMC retains a $+18.1$\,pp advantage over PER at matched budget"),
        "+18.1 pp over PER at equal memory",
        "true",
        _matched,
        "EWC is the stronger baseline there",
    ),
    Claim(
        Place("Meta-World, d over PER", "VI-B", 1376, r"$p<10^{-4}$, $d=2.3$)"),
        "d = 2.3",
        "false",
        _over_per,
        "—",
    ),
    Claim(
        Place("Meta-World, d over PNN", "VI-B", 1377, r"$p<10^{-4}$, $d=1.9$)"),
        "d = 1.9",
        "true",
        _strongest,
        "—",
    ),
    Claim(
        Place("Table metaworld, bold BT", "VI-B", 1364, r"\textbf{AMC} & \textbf{81.7"),
        "AMC has the best BT (bold)",
        "false",
        _backward,
        "PNN forgets three times less",
    ),
    Claim(
        Place("Table summary, 67 %", "X", 1909, r"$67\%$ vs.\ best"),
        "67 % less forgetting than the best",
        "false",
        _reduction,
        "68 % is against EWC; the best is PNN",
    ),
    Claim(
        Place(
            "Abstract, 67–80 %",
            "Abstract",
            79,
            r"in catastrophic forgetting ($67$--$80\%$)",
            ((1910, r"$22\%$ vs.\ PackNet"),),
        ),
        "forgetting falls by 67–80 % on all three benchmarks",
        "false",
        _forgetting_range,
        "—",
    ),
    Claim(
        Place("Meta-World, 2.7–3.5×", "VI-B", 1383, r"AMC achieves 2.7--3.5$\times$ higher ME at the same"),
        "efficiency gain at the same 1000 MB",
        "false",
        _efficiency_gain,
        "1.27–1.46× at equal memory",
    ),
    Claim(
        Place("Abstract, 34–43 %", "Abstract", 78, r"in forward transfer ($+34$--$43\%$ over the strongest baseline)"),
        "forward transfer improves by 34–43 %",
        "true",
        _transfer,
        "—",
    ),
    Claim(
        Place("Table metaworld, p", "VI-B", 1348, r"All AMC vs.\ best-baseline differences: $p<10^{-4}$"),
        "all differences p < 1e-4 after Holm",
        "true",
        _significance,
        "in the wrong direction for BT against PNN",
    ),
    Claim(
        Place("Table atari", "VI-C", 1410, r"AMC achieves 201\% of human-level performance vs.\ 187\%"),
        "+7.5 % (Table summary), 22 % less forgetting",
        "true",
        _atari,
        "—",
    ),
    Claim(
        Place("Atari, d over PackNet", "VI-C", 1411, "($p<10^{-3}$, $d=1.1$)"),
        "d = 1.1",
        "true",
        _over_packnet,
        "—",
    ),
    Claim(
        Place("Table atari, 16/20", "VI-C", 1405, r"\textbf{16/20}"),
        "above human level in 16 of 20 games",
        "unverifiable",
        _above_human,
        "—",
    ),
    Claim(
        Place(
            "Table summary, MuJoCo",
            "X",
            1902,
            "Summary of AMC improvements over the strongest per-benchmark baseline",
            ((1911, r"$80\%$ vs.\ VR"),),
        ),
        "29 % more return, 80 % less loss than the strongest",
        "conditional",
        _mujoco,
        "80 % is against VR (as the row says), not the strongest",
    ),
    Claim(
        Place("MuJoCo, d over EWC", "VI-D", 1436, r"$p<10^{-6}$, $d=4.7$)"),
        "d = 4.7",
        "false",
        _over_ewc,
        "—",
    ),
    Claim(
        Place("Abstract, 62 %", "Abstract", 79, r"a $62\%$ decrease in memory footprint"),
        "62 % less memory",
        "true",
        _memory,
        "see the row on memory size",
    ),
)
