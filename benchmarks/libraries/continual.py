"""DQN of Stable-Baselines3 learns three CartPoles one after another: the runs of `examples/sb3_continual.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.harness.pages import table
from benchmarks.harness.results import Setting
from benchmarks.libraries.interface import example

Runs = list[dict[str, Any]]
NAMES = {"stock": "SB3's own", "prioritized": "`PrioritizedReplayBuffer`", "crystal": "`CrystalReplayBuffer`"}
COLUMNS: dict[str, Callable[[Any], Any]] = {
    "learned (each task, right after it)": lambda s: s[:, [0, 1, 2], [0, 1, 2]].mean(1),
    "A after C": lambda s: s[:, 2, 0],
    "B after C": lambda s: s[:, 2, 1],
    "C after C": lambda s: s[:, 2, 2],
    "all three after C": lambda s: s[:, 2].mean(1),
    "all three at the end": lambda s: s[:, 3].mean(1),
}
"""A number per seed, from scores [seeds, stages, tasks]."""


def measure(setting: Setting) -> Iterator[Runs]:
    """What is stored is not run again."""
    example("continual_figure")
    run = example("sb3_continual").run
    runs = list(setting.stored or [])
    done = {(one["buffer"], one["seed"]) for one in runs}
    for seed in range(2 if setting.quick else 10):
        for buffer in NAMES:
            if (buffer, seed) not in done:
                runs.append(run(buffer, seed, 0.1 if setting.quick else 1.0))
                yield runs


def block(runs: Runs) -> str:
    figure = example("continual_figure")
    scores = figure.table(runs)
    rows = [[NAMES[name], *(_number(*figure.interval(c(s))) for c in COLUMNS.values())] for name, s in scores.items()]
    ours, *others = (COLUMNS["all three after C"](scores[name]) for name in ("crystal", "stock", "prioritized"))
    tests = "; ".join(
        f"compared with {NAMES[name]} {ours.mean() - theirs.mean():+.0f}, "
        f"p = {stats.ttest_ind(ours, theirs, equal_var=False).pvalue:.1g}"
        for name, theirs in zip(NAMES, others, strict=False)
    )
    seeds, minutes = min(len(each) for each in scores.values()), sum(one["seconds"] for one in runs) / 60
    head = f"{seeds} seeds, mean return (at most 200) and 95 % bootstrap interval over the seeds:"
    last = f"All three after C: {NAMES['crystal']} {tests} (Welch). All runs took {minutes:.0f} minutes of one core."
    return "\n\n".join([head, table(["buffer", *COLUMNS], rows), last])


def _number(mean: float, low: float, high: float) -> str:
    return f"{mean:.0f} [{low:.0f}, {high:.0f}]"


def draw(runs: Runs, path: Path) -> None:
    example("continual_figure").draw(runs, path)
