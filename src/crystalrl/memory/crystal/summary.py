"""A crystal memory in a few lines: what it holds, what its anchors pull, and what does not work."""

from __future__ import annotations

from torch import Tensor

from crystalrl.dynamics import EMPTY, PHASES
from crystalrl.memory.crystal.anchors import Anchors
from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.params_checks import floats

PATIENCE = 10
"""Consolidations after which something should have become glass."""


def summary(ledger: CrystalLedger, anchors: Anchors, consolidations: Tensor) -> str:
    """Four lines, as means over the lanes: contents, slots in use, anchors, crystallization."""
    filled, used = ledger.filled.mean(0).tolist(), float(ledger.count.double().mean())
    phases = ", ".join(f"{count:,.0f} {name}" for count, name in zip(filled, PHASES[1:], strict=True))
    lanes = f" in each of {ledger.lanes} lanes (means)" if ledger.lanes > 1 else ""
    added = float(ledger.number.double().mean())
    return "\n".join(
        (
            f"Holds {used:,.0f} experiences{lanes}: {phases}.",
            f"{used:,.0f} of {ledger.slots:,} slots are used ({used / ledger.slots:.0%}); {added:,.0f} were added.",
            _pulling(ledger, anchors),
            _crystallizing(ledger, consolidations),
        )
    )


def _pulling(ledger: CrystalLedger, anchors: Anchors) -> str:
    params = ledger.params
    if not anchors:
        power = max(floats(params.gate))
        weight = f"TD weight (1 − c)^{power:g}" if power else "full TD weight"
        return f"Anchors: none; crystals are replayed at {weight}."
    if not params.pulls:
        return f"Anchors: {', '.join(anchors)}, recorded but without pull, since kappa is 0."
    strength = anchors.pull(ledger.held, ledger.flags)
    held = (strength > 0).sum() / ledger.lanes
    mean = float(strength.sum() / (strength > 0).sum().clamp_min(1))
    return f"Anchors: {', '.join(anchors)} pull on {float(held):,.0f} experiences with mean strength {mean:.2g}."


def _crystallizing(ledger: CrystalLedger, consolidations: Tensor) -> str:
    number = float(consolidations.double().mean())
    if number == 0:
        return "Not consolidated yet: call `consolidate(evaluate)` when `due`."
    largest = float((ledger.c * (ledger.phase != EMPTY)).amax(-1).mean())
    begun = f"{number:,.0f} consolidations; the largest c is {largest:.2f}"
    glass, crystal = ledger.filled[:, 1:].mean(0).tolist()
    if crystal > 0:
        return f"{begun}; crystals have formed."
    return f"{begun}; {'glass has formed, no crystal yet' if glass > 0 else 'nothing has become glass yet'}."


def idle(ledger: CrystalLedger, anchors: Anchors, consolidations: Tensor) -> tuple[str, ...]:
    """Warnings about a memory that does not work as intended; consolidations int64[L] so far."""
    found = []
    full_once = bool((ledger.number >= ledger.slots).all())
    if full_once and bool((consolidations >= PATIENCE).all()) and not bool(ledger.filled[:, 1:].any()):
        largest = float((ledger.c * (ledger.phase != EMPTY)).max())
        found.append(
            f"Nothing crystallizes: the largest c is {largest:.2f}, glass begins at {float(ledger.enter[0].min()):g}. "
            "Experiences are overwritten too early: use more slots, a larger alpha, or consolidate more often."
        )
    used = float((ledger.count / ledger.slots).mean())
    if full_once and used < 0.6:
        remedy = "use fewer slots or a longer time_unit" if ledger.params.borrow else "set borrow"
        found.append(f"{used:.0%} of the slots are used, since phases beyond their capacity are trimmed: {remedy}.")
    if anchors and not ledger.params.pulls:
        found.append("There are anchors but kappa = 0: they do not pull.")
    return tuple(found)
