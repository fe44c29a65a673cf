"""Neighbour lists in a file: what makes a loaded memory go on exactly as the saved one would have.

Lists, scales and ε are stored as they are. Of an index only the centres, and which slots stand in which list in which
order, are stored; its vectors follow from the payload. So nothing but numbers that can be checked is ever read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.memory.neighbours.graph import Vicinity
from crystalrl.memory.neighbours.index import Order

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory

PREFIX = "vicinity."
_ORDER = ("centres", "sizes", "ids")


def tensors(vicinity: Vicinity, used: int) -> dict[str, Tensor]:
    """Copies on CPU; of `slot.…` the used part."""
    state = {
        name: (tensor[:, :used] if name.startswith("slot.") else tensor).detach().to("cpu", copy=True).contiguous()
        for name, tensor in _live(vicinity).items()
    }
    for lane in range(vicinity.memory.lanes):
        state |= {f"index.{lane}.{name}": x for name, x in zip(_ORDER, vicinity.index.order(lane), strict=True)}
    return {PREFIX + name: tensor for name, tensor in state.items()}


def checked(memory: CrystalMemory, state: Mapping[str, Tensor]) -> Vicinity:
    """An empty vicinity that `state` fits; an error if it does not."""
    vicinity = Vicinity(memory)
    live, given = _live(vicinity), {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}
    orders = {f"index.{lane}.{name}" for lane in range(memory.lanes) for name in _ORDER}
    if odd := sorted(set(given) ^ (set(live) | orders)):
        raise ValueError(f"state: wanted the lists of these parameters, got others: {', '.join(odd[:6])}")
    for name, own in live.items():
        wanted, got = list(own.shape), list(given[name].shape)
        fits = len(got) > 1 and got[1] <= wanted[1] and got[2:] == wanted[2:] and got[0] == wanted[0]
        if own.dtype != given[name].dtype or not (fits if name.startswith("slot.") else wanted == got):
            raise ValueError(f"state {PREFIX}{name}: wanted {own.dtype} {wanted}, got {given[name].dtype} {got}")
        if name in ("slot.ahead", "slot.alike") and not _within(given[name], -1, memory.capacity):
            raise ValueError(f"state {PREFIX}{name}: wanted slots below {memory.capacity}, got others")
    for lane in range(memory.lanes):
        _refuse_order(f"{PREFIX}index.{lane}", _order(given, lane), memory.capacity, vicinity.states.size)
    return vicinity


def fill(vicinity: Vicinity, state: Mapping[str, Tensor]) -> None:
    """Take over what `checked` found to fit, once the payload is loaded."""
    given = {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}
    for name, own in _live(vicinity).items():
        (own[:, : given[name].shape[1]] if name.startswith("slot.") else own).copy_(given[name])
    for lane in range(vicinity.memory.lanes):
        order = _order(given, lane)
        if not vicinity.index.restore(lane, order, lambda slots: vicinity.states.vectors("obs", slots)):
            vicinity.built_for[lane] = 0


def _live(vicinity: Vicinity) -> dict[str, Tensor]:
    states = vicinity.states
    named = {name: getattr(vicinity, name) for name in ("epsilon", "built_for", "since", "held")}
    named |= {"mean": states.mean, "deviation": states.deviation, "action_deviation": states.action_deviation}
    lists = {"slot.ahead": vicinity.ahead, "slot.alike": vicinity.alike}
    named |= {name: each.index for name, each in lists.items() if each is not None}
    return named | {f"slot.copy.{role}": copy for role, copy in states.copies.items()}


def _order(given: Mapping[str, Tensor], lane: int) -> Order:
    return Order(*(given[f"index.{lane}.{name}"] for name in _ORDER))


def _refuse_order(name: str, order: Order, slots: int, size: int) -> None:
    centres, sizes, ids = order
    kinds = (centres.dtype, sizes.dtype, ids.dtype) == (torch.float32, torch.int64, torch.int64)
    shapes = centres.dim() == 2 and sizes.dim() == ids.dim() == 1 and list(centres.shape) == [len(sizes), size]
    if not (kinds and shapes):
        raise ValueError(f"state {name}: wanted centres float32[n, {size}], sizes int64[n], ids int64[m], got others")
    counted = _within(sizes, 0, len(ids) + 1) and (not len(sizes) or int(sizes.sum()) == len(ids))
    if not (counted and _within(ids, 0, slots) and len(ids.unique()) == len(ids) and bool(centres.isfinite().all())):
        raise ValueError(
            f"state {name}: wanted every slot once, below {slots}, in lists of the given sizes, got others"
        )


def _within(values: Tensor, low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())
