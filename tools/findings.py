"""The tables of docs/evidence.md, from stored results; `python -m tools.tables` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from crystalrl.study.analysis import Results, Row, compare
from crystalrl.study.stats import welch_interval
from crystalrl.theory.printed import tables
from tools.paper_page import entries
from tools.stored import ROOT, ROWS, entry, markdown, results_of

NAMES = {
    "eight": "eight tasks",
    "sixteen": "sixteen tasks, few slots",
    "thirty": "thirty tasks",
    "hidden": "ten tasks without ids",
    "drift": "goals that drift",
    "redefined": "two of ten tasks redefined",
    "reach-quick": "SAC",
    "reach-slow": "SAC, slow learner",
    "reach-td3": "TD3",
    "reach-redefined": "SAC, two of eight tasks redefined",
    "one-nav": "one navigation task",
    "one-reach": "one task, SAC",
    "one-breakout": "one game, Breakout",
}
"""Table of the study `default` → what it is called here."""
LABELS = {name: label for label, name in ROWS.items()}


def sequences() -> str:
    """Longer and harder sequences."""
    return _scores({NAMES[name]: (name, "AP") for name in ("thirty", "hidden", "drift")})


def redefinition() -> str:
    """Tasks that come again with another goal: before, adapted, and in the end."""
    dqn, sac = "redefined", "reach-redefined"
    columns = {"before": "before", "redefined tasks, right after": "adapted", "all tasks in the end": "AP"}
    return _scores(
        {
            **{f"DQN: {label}": (dqn, metric) for label, metric in columns.items()},
            **{f"SAC: {label}": (sac, metric) for label, metric in columns.items()},
        }
    )


def actors() -> str:
    """Continuous actions: scores in the end, and right after learning."""
    ends = {f"{NAMES[name]}: in the end": (name, "AP") for name in ("reach-quick", "reach-slow", "reach-td3")}
    return _scores(
        {**ends, **{f"{NAMES[name]}: right after": (name, "learned") for name in ("reach-slow", "reach-td3")}}
    )


def single() -> str:
    """One long task: mean height of the learning curve; for Breakout the final return, too."""
    areas = {f"{NAMES[name]}: curve": (name, "area") for name in ("one-nav", "one-reach", "one-breakout")}
    return _scores({**areas, "one game, Breakout: final return": ("one-breakout", "AP")})


def _scores(columns: Mapping[str, tuple[str, str]]) -> str:
    """Methods by columns of (table of the study `default`, metric), without methods that were measured nowhere."""
    lines = [
        [label, *(entry([results_of(f"default/{table}")], name, metric) for table, metric in columns.values())]
        for label, name in ROWS.items()
    ]
    return markdown(
        ["", *columns], [line for line in lines if line[0] == "crystalrl, untuned" or set(line[1:]) != {"–"}]
    )


def minatar() -> str:
    """Five games, measured with earlier defaults."""
    stored = results_of("minatar-5")
    lines = [
        [
            LABELS.get(row.name, "crystalrl, earlier defaults"),
            entry([stored], row.name),
            entry([stored], row.name, "learned"),
        ]
        for row in stored.rows
    ]
    return markdown(["", "all games in the end", "each right after learning it"], lines)


def units() -> str:
    """Rewards in other units, without and with normalised targets."""
    stored = [results_of("default/scaled")]
    columns = {"rewards × 0.01": ", rewards × 0.01", "rewards × 1": "", "rewards × 100": ", rewards × 100"}
    rows = {"crystalrl": "default", "crystalrl, Pop-Art": "default, Pop-Art", "reservoir": "reservoir"}
    lines = [[label, *(entry(stored, name + unit) for unit in columns.values())] for label, name in rows.items()]
    return markdown(["", *columns], lines)


def behind() -> str:
    """Where another method is ahead of the default by more than chance."""
    lines = [
        [label, other, metric, *_difference(ours, theirs, metric)]
        for label, other, ours, theirs in _pairs()
        for metric in ("AP", "adapted", "learned", "area")
        if metric in ours.chosen.metrics
        and welch_interval(ours.chosen.metrics[metric], theirs.chosen.metrics[metric])[1] < 0
    ]
    return markdown(["", "method that is ahead", "in", "ours minus theirs", "95 % interval"], lines)


def even() -> str:
    """Where the default's final score is not told apart from that of another method, by the tests of the study."""
    stored = {label: results_of(f"default/{table}") for table, label in NAMES.items()}
    found = [(label, one) for label, results in stored.items() if _complete(results) for one in compare(results)]
    lines = [
        [label, LABELS[one.row], f"{one.difference:+z.3f}".replace("-", "−"), f"{one.adjusted:.2f}"]
        for label, one in found
        if one.metric == "AP" and one.row in LABELS and one.adjusted >= 0.05
    ]
    return markdown(["", "method", "ours minus theirs, AP", "Holm p"], lines)


def _pairs() -> Iterator[tuple[str, str, Row, Row]]:
    """(what the table is called, the method, the default's row, the method's row)."""
    for table, label in NAMES.items():
        stored = results_of(f"default/{table}")
        if _complete(stored):
            for row in stored.rows:
                if row.name in LABELS and row is not stored.reference:
                    yield label, LABELS[row.name], stored.reference, row


def _complete(stored: Results) -> bool:
    return stored.reference.name == stored.table.reference


def _difference(ours: Row, theirs: Row, metric: str) -> tuple[str, str]:
    a, b = (one.chosen.metrics[metric] for one in (ours, theirs))
    low, high = welch_interval(a, b)
    difference, below, above = (f"{value:+z.3f}".replace("-", "−") for value in (a.mean() - b.mean(), low, high))
    return difference, f"[{below}, {above}]"


def parts() -> str:
    """The paper's ablation: its loss of AP and ours on navigation tasks."""
    lines = [one for one in entries("ablation", tables()["ablation"]) if one.metric.startswith("AP") and one.effect]
    return markdown(
        ["without", "the paper, pp of AP", "ours, pp of AP", "verdict"],
        ([one.row, one.effect, one.ours, one.verdict] for one in lines),
    )


def literal() -> str:
    """The paper's method against baselines: its lead and ours on navigation tasks."""
    found = [(name, one) for name in ("metaworld", "matched") for one in entries(name, tables()[name])]
    lines = [
        [tables()[name].title, LABELS[one.row], one.effect, one.ours, one.verdict]
        for name, one in found
        if one.metric.startswith("AP") and one.effect
    ]
    return markdown(
        ["the paper's table", "method", "the paper: method − AMC", "ours: method − `paper()`", "verdict"], lines
    )


def price() -> str:
    """Time and memory."""
    memory, times, learners = (_benchmark(name) for name in ("memory", "consolidation", "learners"))
    faster, whole = memory["ratios"]["anchored_sample_vs_cpprb"], times["speed 1000000"]
    over, held = learners["overhead"]["crystal, anchored"]["overhead"], memory["bytes_per_experience"]["crystal"]
    lines = {
        "sample and update with anchors, 10⁶ slots": f"{faster:.1f} × as fast as cpprb’s prioritized replay",
        "a step of SAC with 10⁵ slots on a GPU, with anchors": f"{100 * over:+.1f} % over prioritized replay",
        "a consolidation of 10⁶ slots, one CPU thread": f"{whole['seconds']:.1f} s",
        "the same with an index rebuilt and queried": f"{whole['peer_seconds']:.0f} s",
        "bytes added to each experience": f"{held['ledger'] + held['lists']:.0f}, and its anchors",
    }
    return markdown(["what", "measured"], lines.items())


def _benchmark(name: str) -> dict[str, dict]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one
    for one in (sequences, redefinition, actors, single, minatar, units, behind, even, parts, literal, price)
}
