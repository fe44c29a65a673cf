"""Tables of laws and designs, and a plot made of characters."""

from __future__ import annotations

import numpy as np
from rich.table import Table
from rich.text import Text

from crystalrl.cli.theory.options import Show
from crystalrl.params import CrystalParams
from crystalrl.theory import Design, Recommended, Tasks, Thresholds
from crystalrl.theory.rates import Array
from crystalrl.theory.stationary import BOUNDARIES

ROWS, COLUMNS = 17, 64
PHASE_STYLE = {"liquid": "blue", "glass": "yellow", "crystal": "magenta"}


def phase_of(c: float, thresholds: Thresholds) -> str:
    """Name of the phase of c."""
    if c < thresholds.tau_L:
        return "liquid"
    return "crystal" if c > thresholds.tau_C else "glass"


def path_plot(show: Show) -> Text:
    """Mean path (█) ± one standard deviation (░) over time, coloured by phase, with dotted thresholds."""
    t = np.linspace(0, show.end, COLUMNS)
    law, thresholds, text = show.law, show.thresholds, Text()
    mean = np.asarray(law.mean(t, show.c0))
    deviation = np.sqrt(np.asarray(law.variance(t, show.c0)))
    for row in range(ROWS):
        level = 1 - row / (ROWS - 1)
        style = PHASE_STYLE[phase_of(level, thresholds)]
        text.append(f"{level:5.2f} ", style="dim")
        text.append(_line(level, mean, deviation, thresholds), style=style)
        text.append("\n")
    text.append(f"      0{'t':^{COLUMNS - 12}}{show.end:>10.4g}", style="dim")
    return text


def _line(level: float, mean: Array, deviation: Array, thresholds: Thresholds) -> str:
    half = 0.5 / (ROWS - 1)
    edge = min(abs(level - thresholds.tau_L), abs(level - thresholds.tau_C)) <= half
    here = np.abs(mean - level) <= half
    near = np.abs(mean - level) <= deviation + half
    return "".join("█" if a else "░" if b else "┈" if edge else " " for a, b in zip(here, near, strict=True))


def summary(show: Show) -> Table:
    """The properties of a law."""
    law, table = show.law, Table(title=f"crystallization law, {show.preset}", show_header=False)
    low, high = show.thresholds.tau_L, show.thresholds.tau_C
    limit = law.stationary(show.c0 if law.rates.rate == 0 else None)
    name = f"Beta({limit.shapes[0]:g}, {limit.shapes[1]:g})" if limit.shapes else f"atoms at {_atoms(limit.atoms)}"
    table.add_row("limit law", name)
    table.add_row("mean, standard deviation", f"{limit.mean:.5f}, {np.sqrt(limit.variance):.5f}")
    table.add_row("mode", "none inside" if limit.mode is None else f"{limit.mode:.5f}")
    table.add_row("at c = 0", f"{limit.lower}: {BOUNDARIES[limit.lower]}")
    table.add_row("at c = 1", f"{limit.upper}: {BOUNDARIES[limit.upper]}")
    share = law.occupancy(low, high, show.c0 if law.rates.rate == 0 else None)
    table.add_row("long-run phases", f"liquid {share.liquid:.3g}, glass {share.glass:.3g}, crystal {share.crystal:.3g}")
    if law.rates.rate > 0:
        mixing = float(law.relaxation(show.c0).mixing_time)
        table.add_row(
            "relaxation", f"rate {law.rates.rate:.4g}, 1/rate {1 / law.rates.rate:.4g}, mixed after {mixing:.4g}"
        )
    for label, tau in (("to tau_L", low), ("to tau_C", high)):
        table.add_row(f"time {label}", _time(show, tau))
    table.add_row("forgetting", _forgetting(show))
    return table


def _atoms(atoms: tuple[tuple[float, float], ...]) -> str:
    return ", ".join(f"{place:.4g} (mass {mass:.3g})" for place, mass in atoms)


def _time(show: Show, tau: float) -> str:
    straight, log = float(show.law.time_to(tau, show.c0)), float(show.law.log10_mean_first_passage(tau, show.c0))
    mean = (
        "never" if np.isposinf(log) else "0" if np.isneginf(log) else f"{10**log:.4g}" if log < 12 else f"10^{log:.1f}"
    )
    path = "never" if np.isinf(straight) else f"{straight:.4g} ({straight * show.steps:,.0f} steps)"
    return f"mean path {path}; mean first passage {mean}"


def _forgetting(show: Show) -> str:
    low, high = show.thresholds.tau_L, show.thresholds.tau_C
    start = high + 0.01 * (1 - high)
    result = show.law.forgetting(show.end, low, start)
    flag = "; c* < tau_L: certain in the long run" if bool(result.certain) else ""
    below, ever = float(result.log10_below), float(result.log10_ever)
    return f"from {start:.3f} by t = {show.end:.4g}: below tau_L at the end 10^{below:.1f}, ever 10^{ever:.1f}{flag}"


def recommended_table(needs: Tasks, plan: Recommended) -> Table:
    """The recommended parameters for tasks, and what they imply."""
    table = Table(title="recommended memory", show_header=False)
    liquid, glass, crystal = plan.params.caps(needs.slots)
    for name, value in (
        ("parameters", f"CrystalParams({', '.join(changed(plan.params))})"),
        ("slots", f"{liquid:,} liquid, which borrows empty ones, {glass:,} glass, {crystal:,} crystal"),
        ("crystals form", f"{plan.promoted:.0%} of all experiences, after about {plan.steps_to_crystal:,.0f} steps"),
        ("crystals per task", f"{plan.formed:,.0f} form, {plan.remaining:,.0f} remain after {needs.tasks:,} tasks"),
        ("of the last task", f"{plan.remaining_of_last:,.0f}: its last experiences are not crystals yet"),
        ("a contradicted crystal", f"becomes glass after {plan.melting:,.0f} steps"),
        *(("warning", note) for note in plan.notes),
    ):
        table.add_row(name, value, style="yellow" if name == "warning" else None)
    return table


def changed(params: CrystalParams) -> list[str]:
    """The arguments that differ from the defaults."""
    default = CrystalParams().to_json()
    given = {name: value for name, value in params.to_json().items() if value != default[name]}
    return [f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in given.items()]


def design_table(plan: Design) -> Table:
    """A design and its consequences."""
    table = Table(title="designed memory, the paper's rule", show_header=False)
    table.add_row("alpha, beta, sigma", f"{plan.alpha:.4g}, {plan.beta:.4g}, {plan.sigma:.4g}")
    table.add_row("time_unit, every", f"{plan.time_unit:,} experiences")
    table.add_row("slots L : G : C", " : ".join(f"{n:,}" for n in plan.capacity))
    table.add_row("promoted", f"{plan.promoted:.2%} of experiences, utility above {plan.utility_floor:.3f}")
    table.add_row("steps to glass, crystal", f"{plan.steps_to_glass:,.0f}, {plan.steps_to_crystal:,.0f}")
    table.add_row("crystals full after", f"{plan.full_after:,.0f} steps; no crystal is dropped before")
    late = plan.full_after * np.array([2, 10])
    kept = ", ".join(
        f"{share:.0%} of those formed in {at:,.0f}" for at, share in zip(late, plan.retained(late), strict=True)
    )
    table.add_row("then a random sample", kept)
    table.add_row("mean c L, G, C", ", ".join(f"{c:.3f}" for c in plan.mean_c))
    table.add_row("melts under interference", f"utility below {plan.melting_utility:.3f}")
    for note in plan.notes:
        table.add_row("note", note)
    return table
