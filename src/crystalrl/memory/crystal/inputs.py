"""Checks of the arguments of a crystal memory's methods."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY
from crystalrl.memory.storage.pack import unmasked
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.types import ArrayLike


def checked_c(spec: StorageSpec, value: ArrayLike) -> Tensor:
    """Initial crystallization float32[L, 1 or E·n]: one number, or one per environment."""
    lanes = spec.lanes or 1
    c = torch.as_tensor(unmasked("crystallization", value), dtype=torch.float32, device=spec.device)
    if c.dim() == 0:
        c = c.expand(lanes, 1)
    elif tuple(c.shape) == ((lanes, spec.envs) if spec.lanes is not None else (spec.envs,)):
        c = c.reshape(lanes, -1).repeat_interleave(spec.n_step, dim=1)
    else:
        raise ValueError(f"crystallization: wanted a number or one per environment, got shape {tuple(c.shape)}")
    if not bool(((c >= 0) & (c <= 1)).all()):
        raise ValueError(f"crystallization: wanted numbers in [0, 1], got {value!r}")
    return c


def checked_return(spec: StorageSpec, episode_return: ArrayLike) -> Tensor:
    """Returns of episodes float32[L, E]."""
    lanes = spec.lanes or 1
    value = torch.as_tensor(unmasked("episode_return", episode_return), dtype=torch.float32, device=spec.device)
    wanted = (lanes, spec.envs) if spec.lanes is not None else (spec.envs,)
    if (value.dim() and tuple(value.shape) != wanted) or not bool(torch.isfinite(value).all()):
        raise ValueError(f"episode_return: wanted finite numbers of shape {wanted}, got {episode_return!r}")
    return value.expand(wanted).reshape(lanes, spec.envs)


def as_lanes(spec: StorageSpec, value: ArrayLike) -> Tensor:
    """[L, E], or [1, 1] for a scalar."""
    given = torch.as_tensor(value, device=spec.device)
    return given.reshape(spec.lanes or 1, -1) if given.dim() else given.reshape(1, 1)


def occupied_slots(spec: StorageSpec, index: Tensor, phase: Tensor) -> Tensor:
    """Slots int64[L, B] that hold an experience; phase uint8[L, N]."""
    slots = torch.as_tensor(index, device=phase.device)
    lead = () if spec.lanes is None else (spec.lanes,)
    if slots.dtype != torch.int64 or slots.dim() != len(lead) + 1 or tuple(slots.shape[:-1]) != lead:
        wanted = "[B]" if not lead else f"[{spec.lanes}, B]"
        raise ValueError(f"pin: wanted int64 slots of shape {wanted}, got {slots.dtype} {list(slots.shape)}")
    slots = slots.view(len(phase), -1)
    known = (slots >= 0) & (slots < spec.capacity)
    if not bool((known & (phase.gather(1, slots * known) != EMPTY)).all()):
        raise ValueError("pin: wanted slots that hold an experience, got an empty or unknown one")
    return slots


def refuse_too_few_liquid(liquid: int, wanted: int, capacity: int) -> None:
    """Raise if the liquid store cannot hold the experiences `wanted` (envs × n_step) that one step may add."""
    if wanted > liquid:
        raise ValueError(f"capacity: wanted at least envs × n_step = {wanted} liquid slots, got {liquid} of {capacity}")
