"""What a consolidation did, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from crystalrl.dynamics import CRYSTAL, EMPTY, PHASES
from crystalrl.memory.crystal.anchors import Anchors
from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.memory.crystal.snapshot import Plan
from crystalrl.memory.crystal.summary import idle

BINS = 10
FOLLOWED = 32
SEEN = ("surprise", "novelty", "downstream", "drift")
_PHASES = PHASES[1:]
NAMES = (
    *_PHASES,
    *(f"{phase}_share" for phase in _PHASES),
    *(f"{moment}_{phase}" for moment in ("c_mean", "c_variance") for phase in _PHASES),
    *("utility", "error"),
    *("to_glass", "to_crystal", "to_liquid", "melted"),
    *("streak_evicted", "crystal_dropped", "glass_evicted", "liquid_evicted", "refused"),
    *("contradicted", "suspicion"),
    *(f"{weight}_{phase}" for weight in ("td_weight", "anchor_weight") for phase in _PHASES),
    *("contexts", "at_one", "clipped", "epsilon", "delta_r", "time_step", "evaluated"),
)
"""All names in `Consolidation.values`; stored tables have a column for each, whatever the memory."""


@dataclass(frozen=True)
class Consolidation:
    """Report of one consolidation. Every number is float64[L] on CPU, one per lane; `scalars` averages over lanes.

    In `values`:
    liquid, glass, crystal                     experiences in each phase
    …_share                                    share of the phase's capacity in use (liquid: above 1 if it borrows)
    c_mean_…, c_variance_…                     mean and variance of c in each phase (NaN: empty)
    utility, error                             means over all experiences
    to_glass, to_crystal, to_liquid, melted    moves between phases (melted: crystals that became glass or liquid)
    streak_evicted, crystal_dropped, glass_evicted, liquid_evicted, refused
                                               experiences evicted or not admitted, by reason
    contradicted                               experiences contradicted by the interference rule
    suspicion                                  mean backed-up interference W over glass and crystal
    td_weight_…, anchor_weight_…               share of a batch's TD and anchor loss weight carried by each phase
    contexts                                   effective number of contexts among crystals (1/Σp²; NaN: no ids)
    at_one                                     share of experiences at c = 1
    clipped                                    share of |δ| clipped when scaled; with scale="raw", above 1
    epsilon, delta_r                           distance and reward difference used by the rule
    time_step                                  mean Δt
    evaluated                                  experiences evaluated in this call
    """

    values: Mapping[str, Tensor]
    histogram: Tensor
    """int64[L, 3, 10]: c of liquid, glass, crystal in ten equal bins of [0, 1]."""
    seconds: Mapping[str, float]
    """Wall-clock time by stage."""
    warnings: tuple[str, ...]
    """Likely problems, in plain language."""
    notes: tuple[str, ...] = ()
    """What was decided automatically, in plain language; nothing to worry about."""
    followed: Mapping[str, Tensor] = field(default_factory=dict)
    """The state of `FOLLOWED` slots, evenly spaced, float64[L, F] by name: an experience never changes its slot. An
    empty slot has phase 0; NaN: unknown."""

    def scalars(self) -> dict[str, float]:
        """All values for a logger, averaged over the lanes that have one, and the seconds as seconds_…"""
        means = {name: float(value.nanmean()) for name, value in self.values.items()}
        return means | {f"seconds_{stage}": taken for stage, taken in self.seconds.items()}


def consolidation(
    plan: Plan, ledger: CrystalLedger, anchors: Anchors, context: Tensor | None, time: Tensor, begun_at: float
) -> Consolidation:
    """The report of a plan that was written; begun_at: wall-clock time at which writing began."""
    written_at = perf_counter()
    pull = anchors.pull(ledger.held, ledger.flags)
    values = phase_statistics(ledger) | loss_shares(ledger, ledger.is_exponent.at(time), pull) | dict(plan.values)
    values["contexts"] = effective_contexts(context, ledger.phase)
    table = torch.stack([value.to(torch.float64) for value in values.values()]).cpu()  # one transfer
    on_cpu = dict(zip(values, table, strict=True))
    counts = histogram(ledger).cpu()
    seconds = {**plan.seconds, "apply": written_at - begun_at, "report": perf_counter() - written_at}
    consolidations = plan.snapshot.consolidations + 1
    warnings = idle(ledger, anchors, consolidations) + health(on_cpu, ledger.params.interference)
    return Consolidation(on_cpu, counts, seconds, warnings, plan.notes, followed(plan, ledger))


def followed(plan: Plan, ledger: CrystalLedger) -> dict[str, Tensor]:
    """The state of some slots after a plan was written; see `Consolidation.followed`."""
    count = min(FOLLOWED, ledger.slots)
    slots = torch.arange(count, device=ledger.c.device) * ledger.slots // count
    known = {"slot": slots.expand(ledger.lanes, -1), "number": ledger.birth[:, slots], "phase": ledger.phase[:, slots]}
    known |= {name: getattr(ledger, name)[:, slots] for name in ("c", "utility", "error", "interference")}
    inside = slots.clamp_max(plan.snapshot.slots - 1)
    evaluated = plan.snapshot.chosen[:, inside] & (slots < plan.snapshot.slots)
    for name in SEEN:
        values = plan.seen.get(name)
        nothing = torch.full_like(known["c"], torch.nan)
        known[name] = (
            nothing if values is None else torch.where(evaluated, values.expand_as(plan.phase)[:, inside], nothing)
        )
    table = torch.stack([value.to(torch.float64) for value in known.values()]).cpu()
    return dict(zip(known, table, strict=True))


def phase_statistics(ledger: CrystalLedger) -> dict[str, Tensor]:
    """Counts, moments and loss weights by phase, [L] each, on the ledger's device."""
    phase, c = ledger.phase, ledger.c.to(torch.float64)
    occupied = phase != EMPTY
    count = occupied.sum(-1).clamp_min(1)
    out = {
        "utility": (ledger.utility * occupied).sum(-1) / count,
        "error": (ledger.error * occupied).sum(-1) / count,
        "at_one": ((c >= 1) & occupied).sum(-1) / count,
    }
    solid = (phase > 1).sum(-1).clamp_min(1)
    out["suspicion"] = (ledger.interference * (phase > 1)).sum(-1) / solid
    for number in range(1, CRYSTAL + 1):
        name, mine = PHASES[number], phase == number
        members = mine.sum(-1)
        mean = torch.where(members > 0, (c * mine).sum(-1) / members, torch.nan)
        spread = (((c - mean[:, None]) ** 2).masked_fill(~mine, 0)).sum(-1) / members
        out |= {
            name: members,
            f"c_mean_{name}": mean,
            f"c_variance_{name}": torch.where(members > 0, spread, torch.nan),
        }
        out[f"{name}_share"] = members / max(ledger.caps[number - 1], 1)
    return out


def histogram(ledger: CrystalLedger) -> Tensor:
    """int64[L, 3, 10] of c by phase."""
    place = (ledger.c * BINS).to(torch.int64).clamp(0, BINS - 1)
    counts = torch.zeros(ledger.lanes, 3, BINS, dtype=torch.int64, device=place.device)
    for number in range(1, CRYSTAL + 1):
        counts[:, number - 1].scatter_add_(1, place, (ledger.phase == number).to(torch.int64))
    return counts


def loss_shares(ledger: CrystalLedger, exponent: Tensor, pull: Tensor) -> dict[str, Tensor]:
    """Expected share [L] of a batch's TD weight and anchor strength in each phase.

    exponent float64[L, 1]: current exponent of the importance weights; pull float32[L, N]: strength of each
    experience's anchors.
    """
    weight = ledger.tree.weight[:, : ledger.slots].to(torch.float64)
    shares = ledger.strata.fractions(ledger.filled)
    gate = ledger.gate.of(ledger.held)
    td, anchor = [], []
    for number in range(3):
        mine = weight * (ledger.phase == number + 1)
        chance = mine / mine.sum(-1, keepdim=True).clamp_min(1e-300)
        expected = ledger.filled[:, number : number + 1] * chance
        importance = torch.where(expected > 0, expected.clamp_min(1e-300) ** -exponent, 0.0)
        td.append(shares[:, number] * (chance * importance * gate).sum(-1))
        anchor.append(shares[:, number] * (chance * pull).sum(-1))
    out: dict[str, Tensor] = {}
    for kind, parts in (("td_weight", torch.stack(td, -1)), ("anchor_weight", torch.stack(anchor, -1))):
        whole = parts.sum(-1, keepdim=True)
        fraction = torch.where(whole > 0, parts / whole.clamp_min(1e-300), 0.0)
        out |= {f"{kind}_{PHASES[n + 1]}": fraction[:, n] for n in range(3)}
    return out


def effective_contexts(context: Tensor | None, phase: Tensor) -> Tensor:
    """float64[L]: 1/Σp² over the shares p of the contexts [L, N] among crystals; NaN without contexts or crystals."""
    if context is None:
        return torch.full((len(phase),), torch.nan, dtype=torch.float64, device=phase.device)
    crystal = phase == CRYSTAL
    _, code = context.unique(return_inverse=True)
    counts = torch.zeros(len(phase), int(code.max()) + 1, dtype=torch.float64, device=phase.device)
    counts.scatter_add_(1, code, crystal.to(torch.float64))
    return counts.sum(-1) ** 2 / (counts**2).sum(-1)


def health(values: Mapping[str, Tensor], rule: str) -> tuple[str, ...]:
    """Plain-language warnings about common problems. (The paper's healthy ranges cannot be met: in a steady
    state the mean c of liquid stays well below τ_L.)
    """
    mean = {name: float(value.nanmean()) for name, value in values.items()}
    found = []
    if mean["td_weight_crystal"] < 1e-3 and mean["anchor_weight_crystal"] == 0 and mean["crystal"] > 0:
        found.append(
            "Crystals carry less than 0.1 % of the loss: stored but not learnt from. Raise w_min, or use anchors."
        )
    if rule == "exists" and mean["contradicted"] > 0.5 * (mean["liquid"] + mean["glass"] + mean["crystal"]):
        found.append("More than half of all experiences count as contradicted: epsilon is large or rewards are noisy.")
    if mean["at_one"] > 0.5:
        found.append("More than half of all experiences are at c = 1: without interference or leak every c ends there.")
    if mean["clipped"] > 0.2:
        found.append("More than a fifth of the TD errors are clipped: a few are far larger than the rest.")
    if mean["contexts"] < 2 and mean["crystal_share"] > 0.9:
        found.append("The crystal store is full and holds one context only: later tasks will leave no crystals.")
    return tuple(found)
