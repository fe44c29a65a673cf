"""Checks of a crystal memory's state, live or read from a file."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.backends.protocols import UNLABELLED
from crystalrl.dynamics import CRYSTAL, EMPTY, GLASS, LIQUID
from crystalrl.memory.sampling.checks import tree_problems
from crystalrl.memory.storage.checks import Named, Problems, between, counters, finite

SMALLEST, LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
SHARES = ("c", "utility", "suspicion", "key", "held", "boost")
"""Slot columns in [0, 1]; the last two exist only with `CrystalParams.practice` and `boost`."""


def counts(phase: Tensor) -> Tensor:
    """int64[L, 3]: slots that are liquid, glass, crystal."""
    return torch.stack([(phase == p).sum(-1) for p in (LIQUID, GLASS, CRYSTAL)], -1)


def ledger_problems(state: Named, slots: int) -> Problems:
    """What is wrong with the state of a `CrystalLedger` of N slots, of which the first W are given."""
    label = state["slot.label"]
    if bool(((label > CRYSTAL - LIQUID) & (label != UNLABELLED)).any()):
        yield "label: wanted a phase or none, got others"
    phase = label + 1
    counted = counts(phase)
    if not torch.equal(counted.to(torch.float64), state["filled"]):
        yield f"filled: wanted the numbers of labels {counted.tolist()}, got {state['filled'].tolist()}"
    yield from tree_problems(state, phase != EMPTY)
    yield from between("highest", state["highest"], SMALLEST, LARGEST)
    for name in SHARES:
        if f"slot.{name}" in state:
            yield from between(name, state[f"slot.{name}"], 0, 1)
    yield from between("error", state["slot.error"], 0, LARGEST)
    yield from between("flags", state["slot.flags"], 0, 3)
    yield from _arrival_problems(state, phase != EMPTY)
    yield from _queue_problems(state, phase, slots)


def _arrival_problems(state: Named, occupied: Tensor) -> Problems:
    """Arrival numbers that repeat, or that have not been given to any experience yet."""
    number, birth = state["number"], state["slot.birth"]
    yield from counters(state, "number")
    if bool((((birth < 0) | (birth >= number[:, None])) & occupied).any()):
        yield "birth: wanted arrival numbers of experiences so far, got others"
    free = -1 - torch.arange(birth.shape[1], device=birth.device)
    order = torch.where(occupied, birth, free).sort(-1).values
    if bool((order[:, 1:] == order[:, :-1]).any()):
        yield "birth: wanted every arrival number once, got one twice"


def _queue_problems(state: Named, phase: Tensor, slots: int) -> Problems:
    """A write order that does not name every slot once, or whose remaining part names glass or crystal."""
    queue, head, tail = state["queue"].to(torch.int64), state["head"], state["tail"]
    if bool(((head < 0) | (head > tail) | (tail > slots)).any()):
        yield f"queue: wanted 0 ≤ head ≤ tail ≤ {slots}, got head {head.tolist()}, tail {tail.tolist()}"
    place = torch.arange(slots, device=queue.device)
    if not torch.equal(queue.sort(-1).values, place.expand_as(queue)):
        yield "queue: wanted every slot once, got others"
        return
    waiting = (place >= head[:, None]) & (place < tail[:, None])
    whole = torch.zeros(len(phase), slots, dtype=torch.uint8, device=phase.device)
    whole[:, : phase.shape[1]] = phase
    if bool(((whole.gather(1, queue) > LIQUID) & waiting).any()):
        yield "queue: wanted slots that may be written, got glass or crystal"


def memory_problems(state: Named, clock: Tensor, envs: int) -> Problems:
    """What is wrong with the rest of the state; clock int64[L] is the one that `updated` refers to."""
    occupied = state["ledger.slot.label"] != UNLABELLED
    elapsed = clock[:, None].to(torch.int32) - state["ledger.slot.updated"]  # both wrap around
    if bool(((elapsed < 0) & occupied).any()):
        yield "updated: wanted times in the past, got one in the future"
    if "ledger.slot.env" in state:
        yield from between("env", state["ledger.slot.env"], 0, envs - 1)
    yield from counters(state, "crystal.started", "crystal.steps", "crystal.turns", "crystal.grid.count")
    if bool((state["crystal.started"] > state["ledger.number"][:, None]).any()):
        yield "started: wanted episodes that began in the past, got one in the future"
    if "crystal.episode.total" in state:
        yield from counters(state, "crystal.episode.steps")
        yield from between("previous episode", state["crystal.episode.previous"], 0, torch.iinfo(torch.int64).max)
        yield from finite("episode total", state["crystal.episode.total"])
        yield from between("largest reward", state["crystal.episode.largest"], 0, torch.finfo(torch.float32).max)
    yield from between("cell", state["crystal.slot.cell"], 0, state["crystal.grid.count"].shape[1] - 1)
    yield from between("grid deviation", state["crystal.grid.deviation"], 0, torch.inf)
    if bool(state["crystal.grid.centre"].isnan().any()):
        yield "grid centre: wanted numbers, got NaN"
    for name, values in state.items():
        if name.startswith("crystal.slot.anchor."):
            yield from finite(f"anchor {name.removeprefix('crystal.slot.anchor.')}", values)
