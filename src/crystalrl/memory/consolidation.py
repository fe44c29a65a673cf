"""Consolidation (Algorithm 1): evaluate, value, contradict, crystallize, move.

All stages work on all slots, [L, N]. Nothing is written before the critic has answered for everything, so a critic
that fails or returns NaN changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crystalrl import dynamics
from crystalrl.dynamics import EMPTY
from crystalrl.memory import interference, neighbours, report
from crystalrl.memory.crystal_ledger import EVALUATED
from crystalrl.memory.moves import move
from crystalrl.memory.prioritized import annealed
from crystalrl.memory.utility import scaled_error
from crystalrl.random import Stream, beta_variates, element_bits, normal_from_bits, to_unit
from crystalrl.types import Evaluate, Evaluation

if TYPE_CHECKING:
    from crystalrl.memory.crystal import CrystalMemory

EVALUATE_AT_ONCE = 4096
"""Slots per call of the critic. All of them in all lanes, occupied or not, so that a critic sees batches of one shape
and a lane's answers do not depend on the other lanes."""


class Stages:
    """Wall-clock seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def done(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name], self._last = now - self._last, now


@dataclass(frozen=True)
class View:
    """The stored experiences [L, N, …] as a consolidation sees them."""

    fields: Mapping[str, Any]
    occupied: Tensor
    chosen: Tensor
    """Whose c is moved in this call."""
    lane: Tensor
    """bool[L, 1]: lanes that are due."""


def consolidate(memory: CrystalMemory, evaluate: Evaluate, lane: Tensor) -> report.Consolidation:
    """One consolidation of the lanes bool[L, 1] that are due."""
    stages, ledger = Stages(), memory.ledger
    view = _look(memory, lane)
    error, output = _evaluate(memory, view, evaluate)
    stages.done("evaluate")
    fresh = view.chosen & ((ledger.flags & EVALUATED) == 0)
    ledger.error.copy_(torch.where(view.chosen, error, ledger.error))
    state, successor = _vectors(memory, view)
    near = _neighbours(memory, view, state, successor)
    stages.done("neighbours")
    clipped = _value(memory, view, fresh, _random(memory, view) if memory.params.downstream == "random" else near)
    stages.done("utility")
    flagged, epsilon, delta_r = _contradict(memory, view, state, near)
    stages.done("interference")
    step = _crystallize(memory, view, output, fresh)
    moves = move(ledger, flagged, _uniform(memory, Stream.KEY, ledger.slots).to(torch.float32), lane)
    ledger.flags.copy_(torch.where(view.chosen, ledger.flags | EVALUATED, ledger.flags))
    ledger.relabel(moves.phase, lane)
    for anchor in memory.anchors.values():  # what is gone leaves nothing behind
        anchor.masked_fill_((moves.phase == EMPTY).view(*moves.phase.shape, *([1] * (anchor.dim() - 2))), 0.0)
    stages.done("moves")
    extra = {"clipped": clipped, "epsilon": epsilon[:, 0], "delta_r": delta_r[:, 0], "time_step": step}
    extra |= {"contradicted": flagged.sum(-1), "evaluated": view.chosen.sum(-1), **moves.counts}
    return _report(memory, view, extra, stages)


def _look(memory: CrystalMemory, lane: Tensor) -> View:
    ledger = memory.ledger
    occupied = ledger.phase != EMPTY
    chosen = occupied & lane
    if ledger.params.slices > 1:
        turn = memory.turns[:, None] % ledger.params.slices
        mine = torch.arange(ledger.slots, device=occupied.device) % ledger.params.slices == turn
        chosen &= mine | ((ledger.flags & EVALUATED) == 0)
    return View(memory.arena.unpack(memory.arena.rows), occupied, chosen, lane)


def _evaluate(memory: CrystalMemory, view: View, evaluate: Evaluate) -> tuple[Tensor, dict[str, Tensor]]:
    """|δ| float32[L, N] and, for each anchor, the outputs [L, N, …]; zero where nothing was chosen."""
    ledger = memory.ledger
    error = torch.zeros_like(ledger.error)
    output = {name: torch.zeros_like(anchor) for name, anchor in memory.anchors.items()}
    numbers = torch.arange(ledger.slots, device=error.device)
    for slots in numbers.split(EVALUATE_AT_ONCE):
        if not bool(view.chosen[:, slots].any()):
            continue
        answer = evaluate(memory.batch_of(slots))
        if not isinstance(answer, Evaluation):
            answer = Evaluation(answer)
        error[:, slots] = memory.inner_answer("td_error", answer.td_error, (len(slots),)).abs().to(torch.float32)
        for name, outputs in output.items():
            given = (answer.output or {}).get(name)
            if given is None:
                raise ValueError(f"evaluate: wanted output[{name!r}] for the anchor, got {sorted(answer.output or {})}")
            outputs[:, slots] = memory.inner_answer(name, given, (len(slots), *outputs.shape[2:])).to(torch.float32)
    memory.refuse_unfinite(view.chosen, {"td_error": error, **output})
    for answer in (error, *output.values()):  # what a critic says of empty slots and of lanes not due is not looked at
        answer.masked_fill_(~view.chosen.view(*view.chosen.shape, *([1] * (answer.dim() - 2))), 0.0)
    return error, output


def _vectors(memory: CrystalMemory, view: View) -> tuple[Tensor, Tensor]:
    """States and successor states float32[L, N, D] for comparison: raw, or standardised over what is stored."""
    state, successor = (memory.features(view.fields[role]) for role in ("obs", "next_obs"))
    mean, deviation = neighbours.moments(state, view.occupied)
    return (state - mean) / deviation, (successor - mean) / deviation


def _neighbours(memory: CrystalMemory, view: View, state: Tensor, successor: Tensor) -> neighbours.Near | None:
    params = memory.params
    valued = params.downstream == "neighbours" and any(memory.lane_value("w3").flatten().tolist())
    if valued or params.backup:
        return neighbours.nearest(successor, state, view.occupied, params.k)
    return None


def _random(memory: CrystalMemory, view: View) -> neighbours.Near:
    """Random slots in place of neighbours (a row of the paper's ablation)."""
    slots, k = memory.ledger.slots, memory.params.k
    index = (_uniform(memory, Stream.NEIGHBOURS, slots * k) * slots).to(torch.int64).view(memory.lanes, slots, k)
    return neighbours.Near(index, view.occupied.gather(1, index.flatten(1)).view_as(index))


def _value(memory: CrystalMemory, view: View, fresh: Tensor, near: neighbours.Near | None) -> Tensor:
    """Write the utility of the chosen (eq. utility); the clipped share [L] of |δ|."""
    ledger, params = memory.ledger, memory.params
    scaled, clipped = scaled_error(ledger.error, view.occupied, params.scale)
    visits = memory.grid.visit(memory.grid_vectors(view.fields), memory.grid_codes(view.fields), fresh)
    novelty = torch.exp(-visits / memory.lane_value("Z"))
    overall = (scaled * view.occupied).sum(-1, keepdim=True) / view.occupied.sum(-1, keepdim=True).clamp_min(1)
    downstream = overall if near is None else near.mean(scaled, overall)
    w1, w2, w3 = (memory.lane_value(name) for name in ("w1", "w2", "w3"))
    utility = w1 * scaled + w2 * novelty + w3 * downstream
    if params.boost:
        utility = utility + ledger.boost
    ledger.utility.copy_(torch.where(view.chosen, utility.clamp(0, 1).to(torch.float32), ledger.utility))
    return clipped


def _contradict(
    memory: CrystalMemory, view: View, state: Tensor, near: neighbours.Near | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Flags I bool[L, N] of the rule, after writing the suspicion W; ε and δ_r [L, 1] that were used."""
    ledger, params = memory.ledger, memory.params
    compared = memory.features(view.fields["obs"]) if params.raw_distance else state
    scene = memory.scene(compared, view)
    epsilon, delta_r = memory.scales(scene, view)
    flagged = interference.contradicted(params.interference, scene, epsilon, delta_r) & view.lane
    suspicion = flagged.to(torch.float32)
    if params.backup and near is not None:
        alive = view.fields["discount"] > 0
        suspicion = interference.back_up(flagged, near, alive, params.backup, params.sweeps)
    ledger.suspicion.copy_(torch.where(view.lane & view.occupied, suspicion, ledger.suspicion))
    return flagged, epsilon, delta_r


def _crystallize(memory: CrystalMemory, view: View, output: Mapping[str, Tensor], fresh: Tensor) -> Tensor:
    """Move c by one step of its law and let the anchors follow; the mean Δt [L]."""
    ledger, params = memory.ledger, memory.params
    now, unit = (memory.turns + 1, 1) if params.clock == "calls" else (memory.time, params.unit(ledger.slots))
    dt = torch.where(view.chosen, (now[:, None] - ledger.updated).to(torch.float64) / unit, 0.0)
    gain, loss = _rates(memory, _settled(memory, view, output, fresh))
    c = _step(memory, ledger.c.to(torch.float64), gain, loss, dt)
    ledger.c.copy_(torch.where(view.chosen, c, ledger.c))
    ledger.updated.copy_(torch.where(view.chosen, now[:, None], ledger.updated))
    rate = 1 - (1 - (1 - ledger.c) ** 2) ** dt.to(torch.float32)
    rate = rate * view.chosen
    for name, anchor in memory.anchors.items():
        share, first = (x.view(*x.shape, *([1] * (anchor.dim() - 2))) for x in (rate, fresh))
        anchor.copy_(torch.where(first, output[name], anchor + share * (output[name] - anchor)))
    return dt.sum(-1) / view.chosen.sum(-1).clamp_min(1)


def _rates(memory: CrystalMemory, settled: Tensor) -> tuple[Tensor, Tensor]:
    """Gain and loss per unit of time, float64[L, N]."""
    ledger, params = memory.ledger, memory.params
    alpha, leak = memory.lane_value("alpha"), memory.lane_value("leak")
    gain = alpha * ledger.utility * settled
    if params.melt is None:
        return gain, memory.lane_value("beta") * ledger.suspicion + leak
    return gain * (1 - ledger.suspicion), memory.lane_value("melt") * ledger.suspicion + leak


def _settled(memory: CrystalMemory, view: View, output: Mapping[str, Tensor], fresh: Tensor) -> Tensor:
    """S = exp(−drift / (g·spread)), [L, N]: 1 for what has not moved since its last evaluation, or has had none."""
    if memory.params.settle is None or not output:
        return torch.ones_like(memory.ledger.c)
    drift = torch.zeros_like(memory.ledger.c)
    for name, now in output.items():
        flat = now.view(*drift.shape, -1)
        moved = (flat - memory.anchors[name].view_as(flat)).abs().mean(-1)
        _, deviation = neighbours.moments(flat, view.chosen)
        drift += moved / deviation.mean(-1) / len(output)
    return torch.where(fresh, 1.0, torch.exp(-drift / memory.lane_value("settle")).to(drift.dtype))


def _step(memory: CrystalMemory, c: Tensor, gain: Tensor, loss: Tensor, dt: Tensor) -> Tensor:
    sigma = memory.lane_value("sigma")
    start = memory.streams.starts(Stream.NOISE, memory.turns)[:, None]
    slot = torch.arange(c.shape[1], device=c.device)
    if memory.params.integrator == "euler":
        normal = normal_from_bits(element_bits(start, 2 * slot), element_bits(start, 2 * slot + 1))
        return dynamics.euler_maruyama(c, gain, loss, sigma, dt, normal).to(torch.float32)

    def beta(p: Tensor, q: Tensor) -> Tensor:
        return beta_variates(p, q, start, slot)

    return dynamics.matched_beta(c, gain, loss, sigma, dt, beta).to(torch.float32)


def _uniform(memory: CrystalMemory, stream: Stream, size: int) -> Tensor:
    """float64[L, size] in [0, 1) that belong to each lane's own consolidation."""
    start = memory.streams.starts(stream, memory.turns)[:, None]
    return to_unit(element_bits(start, torch.arange(size, device=start.device)))


def _report(memory: CrystalMemory, view: View, extra: Mapping[str, Tensor], stages: Stages) -> report.Consolidation:
    ledger = memory.ledger
    exponent = annealed(ledger.is_exponent, memory.params.is_steps, memory.time)
    values = report.phase_statistics(ledger) | report.loss_shares(ledger, exponent, memory.pull()) | dict(extra)
    values["contexts"] = report.effective_contexts(view.fields["context"], ledger.phase)
    table = torch.stack([value.to(torch.float64) for value in values.values()]).cpu()  # one transfer
    on_cpu = dict(zip(values, table, strict=True))
    stages.done("report")
    warnings = report.health(on_cpu, memory.params.interference)
    return report.Consolidation(on_cpu, report.histogram(ledger).cpu(), stages.seconds, warnings)
