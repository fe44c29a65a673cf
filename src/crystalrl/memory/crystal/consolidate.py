"""Consolidation (Algorithm 1): evaluate, value, contradict, crystallize, move.

`plan` computes everything on copies and writes nothing, `apply` writes what was planned. A critic that fails or returns
NaN therefore changes nothing, and planning may go on beside learning (see `memory.background`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY
from crystalrl.memory.crystal import density, interference, report
from crystalrl.memory.crystal import evaluate as answers
from crystalrl.memory.crystal.law import crystallize
from crystalrl.memory.crystal.ledger import EVALUATED, PINNED
from crystalrl.memory.crystal.novelty import Visits
from crystalrl.memory.crystal.phases import move
from crystalrl.memory.crystal.snapshot import COLUMNS, Draft, Plan, padded
from crystalrl.memory.crystal.utility import scaled_error
from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.memory.sampling.priority import annealed
from crystalrl.random import Stream, element_bits, to_unit
from crystalrl.types import Evaluate, Evaluation

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

EVALUATE_AT_ONCE = 4096
"""Slots per call of the critic on CPU. All of them in all lanes, occupied or not, so that a critic sees batches of one
shape and a lane's answers do not depend on the other lanes."""
EVALUATE_ON_CUDA = 1 << 17
"""Experiences per call of the critic on CUDA, all lanes together: there a call costs the same few launches whatever its
size."""


class Stages:
    """Wall-clock seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def done(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name], self._last = now - self._last, now


def plan(memory: CrystalMemory, draft: Draft, evaluate: Evaluate) -> Plan:
    """What a consolidation of the drafted lanes will do."""
    stages, params = Stages(), memory.params
    error, output = _evaluate(memory, draft, evaluate)
    stages.done("evaluate")
    draft.error = torch.where(draft.chosen, error, draft.error)
    with neighbours.in_full():
        around = memory.surroundings(draft)
    stages.done("neighbours")
    near = _random(memory, draft) if params.downstream == "random" else around.near
    visits = _visits(memory, draft)
    counted, notes = _counted(memory, draft, visits, around.near)
    clipped = _value(memory, draft, counted, near)
    stages.done("utility")
    flagged = around.flagged & draft.lane
    _suspect(draft, flagged, around.near)
    stages.done("interference")
    anchors, step = crystallize(memory, draft, output)
    stages.done("crystallization")
    moves = move(draft, flagged, _uniform(memory, draft, Stream.KEY, 1).to(torch.float32))
    draft.flags = torch.where(draft.chosen, draft.flags | EVALUATED, draft.flags)
    for anchor in anchors.values():  # what is gone leaves nothing behind
        anchor.masked_fill_((moves.phase == EMPTY).view(*moves.phase.shape, *([1] * (anchor.dim() - 2))), 0.0)
    stages.done("moves")
    values = {"clipped": clipped, "epsilon": around.epsilon[:, 0], "delta_r": around.delta_r[:, 0], "time_step": step}
    values |= {"contradicted": flagged.sum(-1), "evaluated": draft.chosen.sum(-1), **moves.counts}
    return Plan(draft, moves.phase, anchors, visits, values, stages.seconds, notes)


def apply(memory: CrystalMemory, planned: Plan) -> report.Consolidation:
    """Write what was planned, but for slots rewritten since, which stay as they are."""
    stages, ledger, draft = Stages(), memory.ledger, planned.draft
    if not torch.equal(draft.turns, memory.turns):
        raise RuntimeError("apply: wanted the plan of the next consolidation, got one from before another was applied")
    ours = slice(None), slice(draft.slots)
    kept = draft.lane & (ledger.generation[:, : draft.slots] == draft.generation)
    pinned = ledger.flags[ours] & PINNED
    draft.flags = (draft.flags & ~PINNED) | pinned
    for name in COLUMNS:
        column = getattr(ledger, name)[ours]
        column.copy_(torch.where(kept, getattr(draft, name), column))
    phase = ledger.phase
    rescued = (planned.phase == EMPTY) & (pinned > 0)  # pinned after it was planned
    phase[ours] = torch.where(kept & ~rescued, planned.phase, phase[ours])
    for name, anchor in memory.anchors.items():
        mine = kept.view(*kept.shape, *([1] * (anchor.dim() - 2)))
        anchor[ours].copy_(torch.where(mine, planned.anchors[name], anchor[ours]))
    memory.grid.count_visits(planned.visits, kept)
    touched = torch.zeros_like(phase, dtype=torch.bool)
    touched[ours] = kept
    ledger.relabel(phase, touched)
    stages.done("apply")
    written = _report(memory, planned.values, {**planned.seconds, **stages.seconds}, stages)
    return replace(written, warnings=written.warnings + planned.notes)


def _evaluate(memory: CrystalMemory, draft: Draft, evaluate: Evaluate) -> tuple[Tensor, dict[str, Tensor]]:
    """|δ| float32[L, N] and, for each anchor, the outputs [L, N, …]; zero where nothing was chosen."""
    error = torch.zeros_like(draft.error)
    output = {name: torch.zeros_like(anchor[:, : draft.slots]) for name, anchor in memory.anchors.items()}
    at_once = _at_once(memory)
    parts = torch.arange(draft.slots, device=error.device).split(at_once)
    wanted = torch.stack([part.any() for part in draft.chosen.split(at_once, dim=1)]).tolist()
    for slots in (part for part, some in zip(parts, wanted, strict=True) if some):
        answer = evaluate(memory.batch_of(slots))
        if not isinstance(answer, Evaluation):
            answer = Evaluation(answer)
        error[:, slots] = answers.inner(memory, "td_error", answer.td_error, (len(slots),)).abs().to(torch.float32)
        for name, outputs in output.items():
            given = (answer.output or {}).get(name)
            if given is None:
                raise ValueError(f"evaluate: wanted output[{name!r}] for the anchor, got {sorted(answer.output or {})}")
            outputs[:, slots] = answers.inner(memory, name, given, (len(slots), *outputs.shape[2:])).to(torch.float32)
    answers.refuse_unfinite(draft.chosen, {"td_error": error, **output})
    for answer in (error, *output.values()):  # what a critic says of empty slots and of lanes not due is not looked at
        answer.masked_fill_(~draft.chosen.view(*draft.chosen.shape, *([1] * (answer.dim() - 2))), 0.0)
    return error, output


def _at_once(memory: CrystalMemory) -> int:
    on_cuda = memory.device.type == "cuda"
    return max(EVALUATE_AT_ONCE, EVALUATE_ON_CUDA // memory.lanes) if on_cuda else EVALUATE_AT_ONCE


def _random(memory: CrystalMemory, draft: Draft) -> neighbours.Near:
    """Random slots in place of neighbours (a row of the paper's ablation)."""
    k = memory.params.k
    index = (_uniform(memory, draft, Stream.NEIGHBOURS, k) * memory.capacity).to(torch.int64)
    exists = index < draft.slots
    index = torch.where(exists, index, 0)
    exists &= draft.occupied.gather(1, index)
    shape = (memory.lanes, draft.slots, k)
    return neighbours.Near(index.view(shape), exists.view(shape))


def _visits(memory: CrystalMemory, draft: Draft) -> Visits:
    """The cells of everything; those of the fresh are new."""
    grid, fields = memory.grid, draft.fields
    centre, deviation = grid.centre, grid.deviation
    if not grid.scaled:
        centre, deviation = grid.scale(*neighbours.moments(memory.grid_vectors(fields), draft.fresh), draft.fresh)
    cell = grid.cell[:, : draft.slots].clone()
    slots, real = padded(draft.fresh)
    if not slots.shape[1]:
        return Visits(draft.fresh, cell, centre, deviation)
    some = memory.arena.unpack(memory.arena.read(slots))
    found = grid.cell_of(memory.grid_vectors(some), memory.grid_codes(some), centre, deviation)
    cell[real.nonzero()[:, 0], slots[real]] = found[real]
    return Visits(draft.fresh, cell, centre, deviation)


def _counted(
    memory: CrystalMemory, draft: Draft, visits: Visits, near: neighbours.Near | None
) -> tuple[Tensor, tuple[str, ...]]:
    """Visits [L, W], by the grid or by neighbours, and what the report says of it."""
    by_cell, how = memory.grid.counted(visits), memory.params.novelty
    if how == "grid" or near is None:
        return by_cell, ()
    useless = memory.grid.useless(visits) | (how == "knn")
    if not bool(useless.any()):
        return by_cell, ()
    counted = torch.where(useless[:, None], density.pseudo_counts(memory, draft, near), by_cell)
    return counted, (density.NOTE,) if how == "auto" else ()


def _value(memory: CrystalMemory, draft: Draft, counted: Tensor, near: neighbours.Near | None) -> Tensor:
    """Draft the utility of the chosen (eq. utility); the clipped share [L] of |δ|."""
    scaled, clipped = scaled_error(draft.error, draft.occupied, memory.params.scale)
    novelty = torch.exp(-counted / memory.lane_value("Z"))
    overall = draft.mean_over_occupied(scaled)
    downstream = overall if near is None else near.mean(scaled, overall)
    w1, w2, w3 = (memory.lane_value(name) for name in ("w1", "w2", "w3"))
    utility = w1 * scaled + w2 * novelty + w3 * downstream
    if draft.boost is not None:
        utility = utility + draft.boost
    draft.utility = torch.where(draft.chosen, utility.clamp(0, 1).to(torch.float32), draft.utility)
    return clipped


def _suspect(draft: Draft, flagged: Tensor, near: neighbours.Near | None) -> None:
    """Draft the suspicion W: the contradicted, and those whose future is."""
    suspicion = flagged.to(torch.float32)
    if draft.params.backup and near is not None:
        alive, last = draft.fields["discount"] > 0, draft.interference if draft.params.warm else None
        suspicion = interference.back_up(flagged, near, alive, draft.params.backup, draft.params.sweeps, last)
    draft.interference = torch.where(draft.lane & draft.occupied, suspicion, draft.interference)


def _uniform(memory: CrystalMemory, draft: Draft, stream: Stream, each: int) -> Tensor:
    """float64[L, W·each] in [0, 1) that belong to each lane's own consolidation and each slot."""
    start = memory.streams.starts(stream, draft.turns)[:, None]
    return to_unit(element_bits(start, torch.arange(draft.slots * each, device=start.device)))


def _report(
    memory: CrystalMemory, extra: Mapping[str, Tensor], seconds: dict[str, float], stages: Stages
) -> report.Consolidation:
    ledger, context = memory.ledger, memory.arena.unpack(memory.arena.rows)["context"]
    exponent = annealed(ledger.is_exponent, memory.params.is_steps, memory.time)
    values = (
        report.phase_statistics(ledger)
        | report.loss_shares(ledger, exponent, memory.anchors.pull(ledger))
        | dict(extra)
    )
    values["contexts"] = report.effective_contexts(context, ledger.phase)
    table = torch.stack([value.to(torch.float64) for value in values.values()]).cpu()  # one transfer
    on_cpu = dict(zip(values, table, strict=True))
    histogram = report.histogram(ledger).cpu()
    stages.done("report")
    warnings = report.health(on_cpu, memory.params.interference)
    return report.Consolidation(on_cpu, histogram, {**seconds, "report": stages.seconds["report"]}, warnings)
