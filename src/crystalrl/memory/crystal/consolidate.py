"""Consolidation (Algorithm 1): computes a plan from a snapshot, the critic's results and the neighbours.

`plan` is a pure function: it computes utility, interference, the step of c, the anchors and the phases, and changes
nothing. `CrystalMemory.apply` writes the plan. A critic that fails therefore leaves the memory as it was, and planning
may run in another thread while learning continues (`memory.crystal.background`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Literal

import torch
from torch import Tensor

from crystalrl import dynamics
from crystalrl.memory.crystal.evaluate import Critique
from crystalrl.memory.crystal.ledger import EVALUATED, PINNED, since
from crystalrl.memory.crystal.novelty import find_visits, masked_quantile, visit_counts
from crystalrl.memory.crystal.phases import move
from crystalrl.memory.crystal.snapshot import Columns, Plan, Snapshot
from crystalrl.memory.neighbours.exact import Near, moments, total
from crystalrl.memory.neighbours.neighbourhood import Neighbourhood
from crystalrl.random import Stream, beta_variates, element_bits, normal_from_bits, to_unit


class Stages:
    """Wall-clock seconds by stage; each stage ends when the next begins."""

    def __init__(self, begun_at: float) -> None:
        self.seconds: dict[str, float] = {}
        self._last = begun_at

    def done(self, name: str, now: float | None = None) -> None:
        now = perf_counter() if now is None else now
        self.seconds[name], self._last = now - self._last, now


def plan(snapshot: Snapshot, critic: Critique, nearby: Neighbourhood) -> Plan:
    """What a consolidation of the lanes that are due will write. Pure: neither the memory nor an argument changes."""
    stages = Stages(snapshot.taken_at)
    stages.done("evaluate", critic.finished_at)
    stages.done("neighbours")
    old, chosen, shared = snapshot.columns, snapshot.chosen, snapshot.shared
    columns = replace(old, error=torch.where(chosen, critic.error, old.error))
    visits = find_visits(shared.grid, snapshot, shared.features)
    counted, notes = visit_counts(shared.grid, visits, nearby, snapshot.occupied, shared.params.novelty)
    utility, clipped, seen = _utility(snapshot, columns.error, counted, nearby.near)
    columns = replace(columns, utility=utility)
    stages.done("utility")
    flagged = nearby.flagged & snapshot.due
    columns = replace(columns, interference=_interference(snapshot, flagged, nearby.near))
    stages.done("interference")
    drift = _drift(snapshot, critic.output)
    columns, elapsed = _crystallize(snapshot, columns, drift)
    practised = _practised(snapshot, nearby.near)
    columns = replace(columns, held=torch.where(practised, 0.0, columns.c))
    anchors = _follow(snapshot, columns.c, elapsed, practised, critic.output)
    stages.done("crystallization")
    moves = move(snapshot, columns, flagged, _uniform(snapshot, Stream.KEY, 1).to(torch.float32))
    flags = torch.where(chosen, old.flags | EVALUATED, old.flags)
    columns = replace(columns, key=moves.key, streak=moves.streak, flags=flags)
    stages.done("moves")
    step = elapsed.sum(-1) / chosen.sum(-1).clamp_min(1)
    values = {"clipped": clipped, "epsilon": nearby.epsilon[:, 0], "delta_r": nearby.delta_r[:, 0], "time_step": step}
    values |= {"contradicted": flagged.sum(-1), "evaluated": chosen.sum(-1), **moves.counts}
    unit = _policy_unit(snapshot, critic.stake)
    seen = seen if drift is None else {**seen, "drift": drift}
    return Plan(snapshot, columns, moves.phase, anchors, unit, visits, values, stages.seconds, notes, seen)


def scaled_error(error: Tensor, occupied: Tensor, scale: Literal["median", "q95", "raw"]) -> tuple[Tensor, Tensor]:
    """δ̂ of |δ| [L, N], and the share [L] of the occupied slots that was clipped.

    median: |δ|/(|δ| + median of the positive |δ|); nothing is clipped. q95: |δ|/95th percentile, clipped at 1.
    0/0 counts as 0. raw: |δ| itself, which is not clipped here (the share counts what is above 1).
    """
    count = occupied.sum(-1).clamp_min(1)
    if scale == "raw":
        return error, ((error > 1) & occupied).sum(-1) / count
    if scale == "median":
        middle = masked_quantile(error, occupied & (error > 0), 0.5)
        whole = error + middle
        return torch.where(whole > 0, error / whole.clamp_min(1e-38), 0.0), torch.zeros_like(count, dtype=torch.float32)
    largest = masked_quantile(error, occupied, 0.95)
    ratio = torch.where(error > 0, error / largest.clamp_min(1e-38), 0.0)
    clipped = ((ratio > 1) & occupied).sum(-1) / count
    return ratio.clamp(0, 1), clipped


def back_up(
    flagged: Tensor, near: Near, alive: Tensor, factor: float, sweeps: int, last: Tensor | None = None
) -> Tensor:
    """W float32[L, N]: W ← max(I, factor·mean W of the neighbours of s′), repeated `sweeps` times.

    flagged bool[L, N] is I; alive bool[L, N]: the episode continued after s′. The iteration starts from I, or from the
    last W. Both converge to the same W, which is unique for factor < 1. From I it is approached from below. From the
    last W one or two sweeps suffice, but W decays slowly where nothing is contradicted any more, because experiences
    that are each other's future support each other's W.
    """
    value = own = flagged.to(torch.float32)
    if last is not None:
        value = torch.maximum(own, last)
    zero = torch.zeros(len(own), 1, dtype=torch.float32, device=own.device)
    if not bool(value.any()):
        return value
    for _ in range(sweeps):
        before, value = value, torch.maximum(own, factor * near.mean(value, zero, first=5) * alive)
        if torch.equal(before, value):
            break
    return value


def _utility(
    snapshot: Snapshot, error: Tensor, counted: Tensor, near: Near | None
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """U = w₁·δ̂ + w₂·N + w₃·V in [0, 1] of the chosen experiences (eq. utility), the share [L] of |δ| clipped, and δ̂, N
    and V by name.
    """
    params, lane = snapshot.shared.params, snapshot.shared.lane_params
    if params.downstream == "random":
        near = _random_near(snapshot)
    scaled, clipped = scaled_error(error, snapshot.occupied, params.scale)
    novelty = torch.exp(-counted / lane["Z"])
    overall = _mean_over(snapshot, scaled)
    downstream = overall if near is None else near.mean(scaled, overall)
    utility = lane["w1"] * scaled + lane["w2"] * novelty + lane["w3"] * downstream
    whole = lane["w1"] + lane["w2"] + lane["w3"]
    utility = utility / torch.where(whole > 1 + 1e-6, whole, 1.0)
    if snapshot.boost is not None:
        utility = utility + snapshot.boost
    utility = torch.where(snapshot.chosen, utility.clamp(0, 1).to(torch.float32), snapshot.columns.utility)
    return utility, clipped, {"surprise": scaled, "novelty": novelty, "downstream": downstream}


def _mean_over(snapshot: Snapshot, values: Tensor) -> Tensor:
    """Mean [L, 1] of values [L, W] over the occupied slots."""
    count = snapshot.occupied.sum(-1, keepdim=True).clamp_min(1)
    return (total(values * snapshot.occupied, snapshot.block) / count).to(values.dtype)


def _random_near(snapshot: Snapshot) -> Near:
    """Random slots in place of neighbours (a row of the paper's ablation)."""
    k = snapshot.shared.params.k
    index = (_uniform(snapshot, Stream.NEIGHBOURS, k) * snapshot.shared.capacity).to(torch.int64)
    exists = index < snapshot.slots
    index = torch.where(exists, index, 0)
    exists &= snapshot.occupied.gather(1, index)
    shape = (*snapshot.phase.shape, k)
    return Near(index.view(shape), exists.view(shape))


def _interference(snapshot: Snapshot, flagged: Tensor, near: Near | None) -> Tensor:
    """float32[L, W]: interference, backed up from contradicted successors if `backup` is set."""
    params, old = snapshot.shared.params, snapshot.columns.interference
    value = flagged.to(torch.float32)
    if params.backup and near is not None:
        alive, last = snapshot.fields["discount"] > 0, old if params.warm else None
        value = back_up(flagged, near, alive, params.backup, params.sweeps, last)
    return torch.where(snapshot.due & snapshot.occupied, value, old)


def _crystallize(snapshot: Snapshot, columns: Columns, drift: Tensor | None) -> tuple[Columns, Tensor]:
    """One step of c, and the time Δt float64[L, W] that it covers; 0 for experiences that were not chosen."""
    params, chosen = snapshot.shared.params, snapshot.chosen
    now, unit = snapshot.clock.time, float(params.unit(snapshot.shared.capacity))
    if params.clock == "calls":
        now, unit = snapshot.consolidations + 1, 1 / params.delta_t
    elapsed = torch.where(chosen, since(columns.updated, now).to(torch.float64) / unit, 0.0)
    gain, loss = _rates(snapshot, columns, _settled(snapshot, drift))
    c = _step(snapshot, gain, loss, elapsed)
    updated = torch.where(chosen, now[:, None].to(torch.int32), columns.updated)
    return replace(columns, c=torch.where(chosen, c, columns.c), updated=updated), elapsed


def _rates(snapshot: Snapshot, columns: Columns, settled: Tensor) -> tuple[Tensor, Tensor]:
    """Gain and loss per unit of time, float64[L, W]."""
    lane, interference = snapshot.shared.lane_params, columns.interference
    gain = lane["alpha"] * columns.utility * settled
    if snapshot.shared.params.melt is None:
        return gain, lane["beta"] * interference + lane["leak"]
    return gain * (1 - interference), lane["melt"] * interference + lane["leak"]


def _settled(snapshot: Snapshot, drift: Tensor | None) -> Tensor:
    """S = exp(−drift / (g·spread)), [L, W]; 1 for outputs that did not move, and at the first evaluation."""
    if snapshot.shared.params.settle is None or drift is None:
        return torch.ones_like(snapshot.columns.c)
    factor = torch.exp(-drift / snapshot.shared.lane_params["settle"]).to(drift.dtype)
    return torch.where(snapshot.unevaluated, 1.0, factor)


def _drift(snapshot: Snapshot, output: Mapping[str, Tensor]) -> Tensor | None:
    """Distance of the outputs from their anchors, relative to the spread of the outputs, [L, W]; None: no anchors."""
    if not output:
        return None
    drift = torch.zeros_like(snapshot.columns.c)
    for name, now in output.items():
        flat = now.view(*drift.shape, -1)
        held = snapshot.shared.anchors[name][:, : snapshot.slots].reshape(flat.shape)
        _, deviation = moments(flat, snapshot.chosen, snapshot.block)
        drift += (flat - held).abs().mean(-1) / deviation.mean(-1) / len(output)
    return drift


def _step(snapshot: Snapshot, gain: Tensor, loss: Tensor, elapsed: Tensor) -> Tensor:
    c, sigma = snapshot.columns.c.to(torch.float64), snapshot.shared.lane_params["sigma"]
    start = snapshot.shared.streams.starts(Stream.NOISE, snapshot.consolidations)[:, None]
    slot = torch.arange(snapshot.slots, device=c.device)
    if snapshot.shared.params.integrator == "euler":
        normal = normal_from_bits(element_bits(start, 2 * slot), element_bits(start, 2 * slot + 1))
        return dynamics.euler_maruyama(c, gain, loss, sigma, elapsed, normal).to(torch.float32)

    def beta(p: Tensor, q: Tensor) -> Tensor:
        return beta_variates(p, q, start, slot)

    return dynamics.matched_beta(c, gain, loss, sigma, elapsed, beta).to(torch.float32)


def _practised(snapshot: Snapshot, near: Near | None) -> Tensor:
    """bool[L, W]: fresh, or a fresh state of its context is among the few nearest to its successor; not pinned."""
    fresh, count = snapshot.unevaluated, snapshot.shared.params.practice
    if near is None or count == 0:
        return torch.zeros_like(fresh)
    lane = torch.arange(len(fresh), device=fresh.device)[:, None, None]
    index = near.index[..., :count]
    found = fresh[lane, index] & near.exists[..., :count]
    context = snapshot.fields["context"]
    if context is not None:
        found &= context[lane, index] == context[..., None]
    return (found.any(-1) | fresh) & snapshot.occupied & ((snapshot.columns.flags & PINNED) == 0)


def _policy_unit(snapshot: Snapshot, stake: Tensor | None) -> Tensor:
    """float32[L]: the unit of the policy's anchor, the root mean square of what is at stake."""
    unit = snapshot.shared.anchors.unit
    if stake is None:
        return unit
    mean = total(stake[..., None] ** 2, snapshot.block)[:, 0, 0] / snapshot.chosen.sum(-1).clamp_min(1)
    return torch.where(snapshot.due[:, 0], mean.sqrt().to(unit.dtype), unit)


def _follow(
    snapshot: Snapshot, c: Tensor, elapsed: Tensor, practised: Tensor, output: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """New anchors [L, W, …]: the output at the first evaluation and while practised; later, moved towards it, less for
    higher c.
    """
    rate = 1 - (c * (2 - c)) ** elapsed.to(torch.float32)  # c·(2 − c) = 1 − (1 − c)², exact for small c
    rate, equal = rate * snapshot.chosen, (practised & snapshot.chosen) | snapshot.unevaluated
    anchors = {}
    for name, anchor in snapshot.shared.anchors.items():
        held = anchor[:, : snapshot.slots]
        moved = held + _like(rate, held) * (output[name] - held)
        anchors[name] = torch.where(_like(equal, held), output[name], moved)
    return anchors


def _uniform(snapshot: Snapshot, stream: Stream, each: int) -> Tensor:
    """float64[L, W·each] in [0, 1), fixed by each lane's consolidation number and the slot."""
    start = snapshot.shared.streams.starts(stream, snapshot.consolidations)[:, None]
    return to_unit(element_bits(start, torch.arange(snapshot.slots * each, device=start.device)))


def _like(values: Tensor, other: Tensor) -> Tensor:
    """values [L, W] with axes of size one added, to broadcast with other [L, W, …]."""
    return values.view(*values.shape, *([1] * (other.dim() - 2)))
