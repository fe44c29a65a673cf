"""One step of the crystallization law: c moves, and the anchors follow the network as far as c lets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl import dynamics
from crystalrl.memory.crystal.ledger import since
from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.random import Stream, beta_variates, element_bits, normal_from_bits

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory


def crystallize(memory: CrystalMemory, draft: Draft, output: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
    """Draft c after one step of its law; the anchors [L, W, …] that follow, and the mean Δt [L]."""
    params, chosen = draft.params, draft.chosen
    now, unit = (draft.turns + 1, 1) if params.clock == "calls" else (draft.time, params.unit(memory.capacity))
    dt = torch.where(chosen, since(draft.updated, now).to(torch.float64) / unit, 0.0)
    gain, loss = _rates(memory, draft, _settled(memory, draft, output))
    c = _step(memory, draft, gain, loss, dt)
    draft.c = torch.where(chosen, c, draft.c)
    draft.updated = torch.where(chosen, now[:, None].to(torch.int32), draft.updated)
    rate = 1 - (1 - (1 - draft.c) ** 2) ** dt.to(torch.float32)
    rate = rate * chosen
    anchors = {}
    for name, anchor in memory.anchors.items():
        share, first = (x.view(*x.shape, *([1] * (anchor.dim() - 2))) for x in (rate, draft.fresh))
        held = anchor[:, : draft.slots]
        anchors[name] = torch.where(first, output[name], held + share * (output[name] - held))
    return anchors, dt.sum(-1) / chosen.sum(-1).clamp_min(1)


def _rates(memory: CrystalMemory, draft: Draft, settled: Tensor) -> tuple[Tensor, Tensor]:
    """Gain and loss per unit of time, float64[L, W]."""
    gain = memory.lane_value("alpha") * draft.utility * settled
    leak = memory.lane_value("leak")
    if draft.params.melt is None:
        return gain, memory.lane_value("beta") * draft.interference + leak
    return gain * (1 - draft.interference), memory.lane_value("melt") * draft.interference + leak


def _settled(memory: CrystalMemory, draft: Draft, output: Mapping[str, Tensor]) -> Tensor:
    """S = exp(−drift / (g·spread)), [L, W]: 1 for what has not moved since its last evaluation, or has had none."""
    if draft.params.settle is None or not output:
        return torch.ones_like(draft.c)
    drift = torch.zeros_like(draft.c)
    for name, now in output.items():
        flat = now.view(*drift.shape, -1)
        moved = (flat - memory.anchors[name][:, : draft.slots].reshape(flat.shape)).abs().mean(-1)
        _, deviation = neighbours.moments(flat, draft.chosen)
        drift += moved / deviation.mean(-1) / len(output)
    return torch.where(draft.fresh, 1.0, torch.exp(-drift / memory.lane_value("settle")).to(drift.dtype))


def _step(memory: CrystalMemory, draft: Draft, gain: Tensor, loss: Tensor, dt: Tensor) -> Tensor:
    c, sigma = draft.c.to(torch.float64), memory.lane_value("sigma")
    start = memory.streams.starts(Stream.NOISE, draft.turns)[:, None]
    slot = torch.arange(draft.slots, device=c.device)
    if draft.params.integrator == "euler":
        normal = normal_from_bits(element_bits(start, 2 * slot), element_bits(start, 2 * slot + 1))
        return dynamics.euler_maruyama(c, gain, loss, sigma, dt, normal).to(torch.float32)

    def beta(p: Tensor, q: Tensor) -> Tensor:
        return beta_variates(p, q, start, slot)

    return dynamics.matched_beta(c, gain, loss, sigma, dt, beta).to(torch.float32)
