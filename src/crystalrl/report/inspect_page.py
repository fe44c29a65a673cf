"""The inside of memories as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from crystalrl.params import CrystalParams
from crystalrl.report import covering, maps, memory_charts, trajectories
from crystalrl.report.chart import Chart, escape
from crystalrl.report.html import Page, contents, definitions, links, messages
from crystalrl.report.text import Grid, Noted
from crystalrl.study.inspection import Inspected

SECTIONS = 6
"""Memories on a page; further ones can be shown with --row."""
LATER = {
    "histograms": "distributions of c",
    "followed": "parts of the utility, anchor errors, trajectories and times to crystallize",
    "contents": "where the crystals come from, their age, reward and return, maps and covering",
}
"""What a page lacks if a table is missing."""

NOTHING = (
    "No memory with phases has been recorded here yet. Rows with the crystal memory have phases, from their first "
    "consolidation on."
)
ONE_MOMENT = "The file of a memory holds one moment. Runs also record what happens over time."
NO_CRYSTALS = "None of these experiences is a crystal, so how well crystals cover the states is not known."

TIMES, COVERING = "How long it takes to crystallize", "How well the crystals cover the stored states"
WORDS = {
    "c": "the state of an experience, in [0, 1]: it rises with usefulness and falls under contradiction",
    "liquid, glass, crystal": "phases of low, medium and high c: new experiences, candidates, and experiences to keep",
    "consolidation": "the pass over the memory that evaluates experiences, changes c and phases, and evicts",
    "utility U": "usefulness in [0, 1]: weighted sum of the scaled TD error, novelty and downstream value",
    "novelty": "high where state and action were rarely visited",
    "downstream value": "mean scaled TD error of the stored states nearest to the successor state",
    "contradicted": "similar state and action as other experiences, but a different reward",
    "interference W": "how contradicted an experience and what follows it are, in [0, 1]",
    "melting": "the fall of c of contradicted experiences; crystals become glass or liquid again",
    "change of c": "expected change per unit of time of the memory, if all outputs are settled; negative: it melts",
    "age": "environment steps since an experience was stored",
    "anchor": "an output of the network that was stored with an experience and is held in place",
    "anchor error": "distance of the network’s output now from the anchor, in standard deviations of the outputs",
    "followed": "some slots whose experiences are recorded at every consolidation",
    "law": "dc = [gain·(1 − c) − loss·c] dt + σ√(c(1 − c)) dW; the gain grows with U, the loss with W",
}


def all_charts(one: Inspected, quick: bool = False) -> tuple[list[Chart], list[str]]:
    """All charts of a memory, and messages about what is missing. quick: without the maps that take seconds."""
    paths = trajectories.trajectories(one)
    drawn, missing = maps.maps(one, quick)
    return [*memory_charts.charts(one), *([] if paths.empty else [paths]), *drawn], missing


def inspection_page(
    found: Sequence[Inspected],
    title: str,
    problems: Sequence[str] = (),
    live: str = "",
    lipschitz: float | None = None,
) -> str:
    """Memories as one HTML page. live: see `Page.document`; such a page has maps by PCA only. lipschitz: `coverage`."""
    made = Page()
    body = [f"<h1>{escape(title)}: inside the memory</h1>", messages(problems)]
    if not found:
        body.append(messages([NOTHING]))
    if len(found) > SECTIONS:
        body.append(messages([f"The first {SECTIONS} of {len(found)} memories are shown; --row chooses others."]))
    if len(found) > 1:
        body.append(contents("memory", [one.name for one in found[:SECTIONS]]))
    for number, one in enumerate(found[:SECTIONS]):
        body += [f'<h2 id="memory-{number}">{escape(one.name)}</h2>', *_section(made, one, bool(live), lipschitz)]
    if found:
        body.append('<h2 id="words">Words</h2>' + definitions(WORDS.items()))
    return made.document(title, body, live)


def tables(one: Inspected, lipschitz: float | None = None) -> dict[str, Noted]:
    """The tables of a memory that have lines, by title, with what they mean. lipschitz: `coverage`."""
    named = {
        TIMES: Noted(trajectories.timescales(one) if one.followed else Grid([], []), (trajectories.ABOUT,)),
        COVERING: covering.coverage(one, lipschitz),
    }
    return {title: table for title, table in named.items() if table.grid.lines}


def _section(made: Page, one: Inspected, quick: bool, lipschitz: float | None) -> list[str]:
    (charts, missing), first = all_charts(one, quick), len(made.charts)
    parts = ["".join(f"<p>{escape(sentence)}</p>" for sentence in words(one)), messages([*one.warnings, *missing])]
    parts.append(messages(lacking(one)))
    measured = {f"measured-{first}-{number}": named for number, named in enumerate(tables(one, lipschitz).items())}
    places = [(f"chart-{number}", chart.title) for number, chart in enumerate(charts, first)]
    parts += [links([*places, *((place, title) for place, (title, _) in measured.items()), ("words", "Words")])]
    parts += [made.figure(chart) for chart in charts]
    for place, (title, table) in measured.items():
        notes = "".join(f'<p class="about">{escape(note)}</p>' for note in table.notes)
        parts.append(f'<h3 id="{place}">{title}</h3>{made.table(table.grid)}{notes}')
    inside = definitions(settings(one.params))
    return [*parts, f"<details><summary>Settings of this memory</summary>{inside}</details>"]


def lacking(one: Inspected) -> list[str]:
    """What a page lacks: not recorded yet or at all, not stored by older versions, or not to be read."""
    held, _ = maps.last_contents(one)
    none = [NO_CRYSTALS] if held and not (held["phase"] == 3).any() else []
    if one.memory is None:
        return [ONE_MOMENT, *none]
    lacks = {name: what for name, what in LATER.items() if not getattr(one, name)}
    young = bool(one.histograms and one.stage_steps) and float(one.memory["step"][-1]) < one.stage_steps[0]
    soon = lacks.pop("contents", "") if young else ""
    never = "; ".join(lacks.values())
    said = (f"Recorded when the first task ends: {soon}.", f"No data that can be read: {never}.")
    return [*(sentence for sentence, what in zip(said, (soon, never), strict=True) if what), *none]


def settings(params: CrystalParams) -> list[tuple[str, str]]:
    """All parameters as text, with the default where another value was set; these come first."""
    default, found = CrystalParams(), []
    for one in fields(params):
        value, usual = getattr(params, one.name), getattr(default, one.name)
        found.append((value == usual, one.name, f"{value}" if value == usual else f"{value} (default: {usual})"))
    return [(name, said) for _, name, said in sorted(found, key=lambda each: each[0])]


def words(one: Inspected) -> list[str]:
    """What the memory holds and whether it works, in plain words."""
    held = _counts(one)
    total = sum(held.values())
    phases = ", ".join(f"{count:,.0f} {phase}" for phase, count in held.items())
    said = [f"It holds {one.stored:,} experiences in {one.capacity:,} slots"]
    part = one.memory is None and one.contents is not None and len(one.contents["c"]) < one.stored
    said[0] += f": {'about ' * part}{phases}." if total else "."
    if one.memory is not None:
        told = len(one.memory["step"])
        formed = float(np.nansum(one.memory["to_crystal"])) if "to_crystal" in one.memory else 0.0
        melted = float(np.nansum(one.memory["melted"])) if "melted" in one.memory else 0.0
        said.append(f"In {told:,} consolidations {formed:,.0f} experiences became crystal and {melted:,.0f} melted.")
    forgotten = being_forgotten(one)
    if forgotten:
        said.append(forgotten)
    if not one.warnings and one.memory is not None:
        said.append("Nothing looks wrong with it at the last consolidation.")
    return said


def _counts(one: Inspected) -> dict[str, float]:
    phases = memory_charts.PHASES
    if one.memory is not None:
        return {phase: float(one.memory[phase][-1]) for phase in phases}
    held = one.contents or {}
    if not held:
        return {}
    scale = one.stored / max(len(held["c"]), 1)
    return {phase: scale * float((held["phase"] == place).sum()) for place, phase in enumerate(phases, 1)}


def being_forgotten(one: Inspected) -> str:
    """The task whose outputs have moved furthest from their anchors at the end."""
    chart = memory_charts.anchor_error(one)
    if chart.empty:
        return ""
    x, y, row = chart.data["x"].astype(float), chart.data["y"].astype(float), chart.data["row"]
    last = x >= x.max() - 1e-9
    if not last.any():
        return ""
    worst = int(np.flatnonzero(last)[y[last].argmax()])
    return (
        f"The outputs furthest from their anchors are now those of experiences {row[worst]}: "
        f"{y[worst]:.2f} standard deviations of the outputs."
    )
