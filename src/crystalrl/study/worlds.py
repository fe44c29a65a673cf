"""Worlds that a run can leave and enter again at any step.

One that offers `state_dict` and `load_state_dict` knows best. A world of plain tensors (whatever can step inside a CUDA
graph) is saved as they are. Any other can be left between tasks only, where `begin` starts it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from crystalrl.random import Streams


def world_state(world: Any, plain: bool, between: bool) -> dict[str, Tensor] | None:
    """The world as tensors on CPU; None if it cannot be left here. `plain`: its state is its tensors; `between`: the
    next task has not begun.
    """
    if hasattr(world, "state_dict"):
        state: dict[str, Tensor] = world.state_dict()
        return state
    if plain:
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in _tensors(world).items()}
    return {} if between else None


def load_world(world: Any, plain: bool, state: Mapping[str, Tensor]) -> None:
    """Enter the world where `world_state` left it."""
    if not state:
        return
    if hasattr(world, "load_state_dict"):
        world.load_state_dict(state)
    elif plain:
        for name, tensor in _tensors(world).items():
            tensor.copy_(state[name])


def _tensors(world: Any) -> dict[str, Tensor]:
    """Live tensors of a world, its random streams' included."""
    found = {}
    for name, value in vars(world).items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, Streams):
            found[f"{name}.ticks"] = value.ticks
    return found
