"""Calls the critic for TD errors and outputs, chunk by chunk, and checks what it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from crystalrl.memory.crystal.snapshot import Snapshot
from crystalrl.memory.storage.batches import gather_batch
from crystalrl.types import Batch, Evaluate, Evaluation

CPU_CHUNK = 4096
"""Slots per call of the critic on CPU. Every chunk holds the same slots of all lanes, occupied or not: the critic sees
batches of one shape, and the results for a lane do not depend on the other lanes."""
CUDA_CHUNK = 1 << 17
"""Experiences per call of the critic on CUDA, over all lanes. A call needs the same few kernel launches at any size."""

LARGEST_ERROR, LARGEST_OUTPUT = 1e30, 1e15
"""Bounds on |δ| and on outputs: sums of the first, and of squared differences of the second, must fit into float32."""


@dataclass(frozen=True)
class Critique:
    """The critic's results for a whole snapshot; zero for experiences that were not chosen."""

    error: Tensor
    """|δ| float32[L, W]."""
    output: Mapping[str, Tensor]
    """The network's output for each anchor, float32[L, W, …]."""
    stake: Tensor | None
    """How much value the choice of the action decides, float32[L, W]; None: the critic does not say."""
    finished_at: float
    """Wall-clock time at which the critic finished, in seconds."""


def evaluate_all(snapshot: Snapshot, evaluate: Evaluate) -> Critique:
    """Evaluate every chosen experience. Raises if a result is missing, not finite, too large or of the wrong shape."""
    chosen = snapshot.chosen
    error = torch.zeros_like(snapshot.columns.error)
    output = {name: torch.zeros_like(x[:, : snapshot.slots]) for name, x in snapshot.shared.anchors.items()}
    stake, size = torch.zeros_like(error), _chunk_size(snapshot)
    known = True
    chunks = torch.arange(snapshot.slots, device=error.device).split(size)
    needed = torch.stack([part.any() for part in chosen.split(size, dim=1)]).tolist()
    for slots in (chunk for chunk, some in zip(chunks, needed, strict=True) if some):
        result = evaluate(_batch(snapshot, slots))
        if not isinstance(result, Evaluation):
            result = Evaluation(result)
        error[:, slots] = _checked(snapshot, "td_error", result.td_error, (len(slots),)).abs().to(torch.float32)
        known &= result.stake is not None
        if result.stake is not None:
            stake[:, slots] = _checked(snapshot, "stake", result.stake, (len(slots),)).abs().to(torch.float32)
        for name, outputs in output.items():
            given = _output(result, name)
            outputs[:, slots] = _checked(snapshot, name, given, (len(slots), *outputs.shape[2:])).to(torch.float32)
    _refuse_too_large(chosen, {"td_error": error, "stake": stake, **output})
    for results in (error, stake, *output.values()):  # those of empty slots and of lanes that are not due are ignored
        results.masked_fill_(~chosen.view(*chosen.shape, *([1] * (results.dim() - 2))), 0.0)
    return Critique(error, output, stake if known else None, perf_counter())


def _chunk_size(snapshot: Snapshot) -> int:
    on_cuda = snapshot.phase.device.type == "cuda"
    return max(CPU_CHUNK, CUDA_CHUNK // len(snapshot.phase)) if on_cuda else CPU_CHUNK


def _batch(snapshot: Snapshot, slots: Tensor) -> Batch:
    """The experiences in slots int64[C] of every lane."""
    shared, columns = snapshot.shared, snapshot.columns
    wide = slots.expand(len(snapshot.phase), -1).contiguous()
    weight = torch.ones(wide.shape, dtype=torch.float32, device=wide.device)
    anchors = shared.anchors.of(wide, columns.held, columns.flags)
    return gather_batch(snapshot.arena, wide, weight, to=shared.deliver, squeeze=shared.squeeze, anchors=anchors)


def _output(result: Evaluation, name: str) -> Tensor:
    given = (result.output or {}).get(name)
    if given is None:
        raise ValueError(f"evaluate: wanted output[{name!r}] for the anchor, got {sorted(result.output or {})}")
    return given


def _checked(snapshot: Snapshot, name: str, result: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A result [L, *shape] (or [*shape] without lanes) as [L, *shape] on the memory's device."""
    squeeze = snapshot.shared.squeeze
    wanted = shape if squeeze else (len(snapshot.phase), *shape)
    if not isinstance(result, Tensor) or tuple(result.shape) != wanted:
        got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
        raise ValueError(f"evaluate: wanted {name} of shape {list(wanted)}, got {got}")
    result = result.detach().to(snapshot.phase.device)
    return result[None] if squeeze else result


def _refuse_too_large(chosen: Tensor, results: Mapping[str, Tensor]) -> None:
    """Raise if a result for a chosen experience is NaN, infinite or so large that a consolidation would overflow."""
    for name, result in results.items():
        limit = LARGEST_ERROR if name == "td_error" else LARGEST_OUTPUT
        bad = ~(result.abs() <= limit).view(*chosen.shape, -1).all(-1) & chosen
        if bool(bad.any()):
            lanes = bad.any(-1).nonzero()[:, 0].tolist()
            odd = result.view(*chosen.shape, -1)[bad].flatten()
            got = odd[~(odd.abs() <= limit)][0].item()
            kind = "NaN or infinity" if not math.isfinite(got) else f"{got:.3g}"
            raise ValueError(f"evaluate: wanted finite {name} up to {limit:.0e}, got {kind} in lanes {lanes[:8]}")
