"""What a memory stores: shapes, dtypes, lanes. Validated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Self, TypedDict

import torch

from crystalrl.random import lane_seeds

Shape = tuple[int, ...]
FLOATS = (torch.float16, torch.float32, torch.float64)
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64}
"""dtypes that are not stored as such, and those that hold their values instead."""
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)


class StorageOptions(TypedDict, total=False):
    """Keyword arguments of every memory; `StorageSpec` documents them."""

    obs: Shape | Mapping[str, Shape]
    action: int | Shape
    obs_dtype: torch.dtype | Mapping[str, torch.dtype]
    action_dtype: torch.dtype
    lanes: int | None
    envs: int
    n_step: int
    gamma: float
    context: bool
    seed: int | Sequence[int]
    device: str | torch.device
    deliver: str | torch.device | None
    stack: int | None


@dataclass(frozen=True)
class StorageSpec:
    """Shapes, dtypes and devices of a memory's contents."""

    capacity: int
    """Slots per lane, N."""
    obs: Shape | Mapping[str, Shape]
    """Shape of one observation, or a name → shape mapping for dict observations."""
    action: int | Shape
    """Number of discrete actions, or the shape of a box action."""
    obs_dtype: torch.dtype | Mapping[str, torch.dtype] = torch.float32
    action_dtype: torch.dtype = torch.float32
    """dtype of a box action; discrete actions are int64."""
    lanes: int | None = None
    """Independent learners stacked on a leading axis. None: one learner, without that axis."""
    envs: int = 1
    """Parallel environments per lane."""
    n_step: int = 1
    gamma: float = 0.99
    """Discount per environment step."""
    context: bool = False
    """Whether transitions carry a context (task) id."""
    seed: int | Sequence[int] = 0
    """Seed of each lane; a single integer s gives s, s + 1, …"""
    device: str | torch.device = "cpu"
    """Device that stores the contents."""
    deliver: str | torch.device | None = None
    """Device of the batches. None: the device of the contents. Copies from CPU to CUDA go through pinned memory."""
    stack: int | None = None
    """Frames in one observation, along its first axis. Each frame is stored once, however many experiences show it. On
    CPU only. None: observations are stored whole."""

    def __post_init__(self) -> None:
        _whole("capacity", self.capacity, 1)
        _whole("envs", self.envs, 1)
        _whole("n_step", self.n_step, 1)
        if self.lanes is not None:
            _whole("lanes", self.lanes, 1)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma: wanted a number in [0, 1], got {self.gamma}")
        if self.envs * self.n_step > self.capacity:
            raise ValueError(
                f"capacity: wanted at least envs × n_step = {self.envs * self.n_step} slots, got {self.capacity}"
            )
        lane_seeds(self.seed, self.lanes or 1)
        for name, shape in self.obs_shapes.items():
            _shape(f"obs {name}".strip(), shape)
            _dtype(f"obs_dtype {name}".strip(), self.obs_dtypes[name])
        _dtype("action_dtype", self.action_dtype)
        if isinstance(self.action, int):
            _whole("action", self.action, 1)
        else:
            _shape("action", self.action)
        if self.stack is not None:
            _stack(self.stack, self.obs, torch.device(self.device))

    @classmethod
    def of(cls, kind: type, capacity: int, options: StorageOptions) -> Self:
        """From the keyword arguments of a memory of this kind; TypeError if one is unknown or missing."""
        known = {*StorageOptions.__annotations__, *signature(kind).parameters} - {"storage"}
        if strange := sorted(set(options) - known):
            wanted = f"arguments among {', '.join(sorted(known))}"
            raise TypeError(f"{kind.__name__}: wanted {wanted}, got {', '.join(strange)}")
        if missing := [name for name in ("obs", "action") if name not in options]:
            raise TypeError(f"{kind.__name__}: wanted obs= and action=, got no {' and no '.join(missing)}")
        return cls(capacity, **options)

    @property
    def obs_shapes(self) -> dict[str, Shape]:
        """name → shape; the name of a plain observation is empty."""
        return dict(self.obs) if isinstance(self.obs, Mapping) else {"": self.obs}

    @property
    def obs_dtypes(self) -> dict[str, torch.dtype]:
        given = self.obs_dtype
        if not isinstance(given, Mapping):
            return dict.fromkeys(self.obs_shapes, given)
        if set(given) != set(self.obs_shapes):
            raise ValueError(f"obs_dtype: wanted the keys of obs {sorted(self.obs_shapes)}, got {sorted(given)}")
        return dict(given)

    @property
    def seeds(self) -> list[int]:
        return lane_seeds(self.seed, self.lanes or 1)


STRUCTURE = ("capacity", "obs", "action", "obs_dtype", "action_dtype", "lanes", "envs", "n_step", "gamma", "context")
"""Fields in which a memory and a file must agree for the file to be loaded."""


def storage_to_json(spec: StorageSpec) -> dict[str, Any]:
    """The structure of a memory. `stack` is named only where it is used, so that other files stay the same."""
    names = STRUCTURE if spec.stack is None else (*STRUCTURE, "stack")
    return {name: _to_json(getattr(spec, name)) for name in names}


def storage_from_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments from a saved `StorageSpec`."""
    names = (*STRUCTURE, "stack") if "stack" in values else STRUCTURE
    return {name: _from_json(values[name]) for name in names}


def _to_json(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, Mapping):
        return {"map": {name: _to_json(v) for name, v in value.items()}}
    if isinstance(value, tuple):
        return {"shape": list(value)}
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if "dtype" in value:
            return getattr(torch, value["dtype"])
        if "shape" in value:
            return tuple(value["shape"])
        return {name: _from_json(v) for name, v in value["map"].items()}
    return value


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: wanted a whole number ≥ {least}, got {value!r}")


def _shape(name: str, value: object) -> None:
    if not isinstance(value, tuple) or not all(isinstance(n, int) and n > 0 for n in value):
        raise ValueError(f"{name}: wanted a shape such as (17,), got {value!r}")


def _dtype(name: str, value: object) -> None:
    if value not in FLOATS + INTEGERS:
        wanted = ", ".join(str(d).removeprefix("torch.") for d in FLOATS + INTEGERS)
        raise ValueError(f"{name}: wanted one of {wanted}, got {value!r}")


def _stack(stack: object, obs: Shape | Mapping[str, Shape], device: torch.device) -> None:
    _whole("stack", stack, 1)
    if isinstance(obs, Mapping):
        raise ValueError(f"stack: wanted one box observation, got a dict of {sorted(obs)}")
    if not obs or obs[0] % stack:  # type: ignore[operator]
        raise ValueError(f"stack: wanted observations whose first axis is a multiple of {stack}, got the shape {obs}")
    if device.type != "cpu":
        raise ValueError(
            f"stack: wanted device cpu, with deliver={str(device)!r} for batches on {device}, got device {device}"
        )


def from_spaces(observation_space: Any, action_space: Any) -> StorageOptions:
    """Shapes and dtypes of Gymnasium spaces (read by their attributes; gymnasium itself is not imported).

    float64 spaces are stored as float32, as networks expect; pass `obs_dtype=torch.float64` to keep all digits. uint16
    and uint32 are stored as int32 and int64.
    """
    options: StorageOptions = {}
    parts = getattr(observation_space, "spaces", None)
    if isinstance(parts, Mapping):
        options["obs"] = {name: _space(space)[0] for name, space in parts.items()}
        options["obs_dtype"] = {name: _space(space)[1] for name, space in parts.items()}
    else:
        options["obs"], options["obs_dtype"] = _space(observation_space)
    if hasattr(action_space, "n") and not action_space.shape:
        if getattr(action_space, "start", 0) != 0:
            raise ValueError(f"action_space: wanted actions numbered from 0, got {action_space}")
        options["action"] = int(action_space.n)
    else:
        options["action"], options["action_dtype"] = _space(action_space)
    return options


def _space(space: Any) -> tuple[Shape, torch.dtype]:
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None:
        raise ValueError(f"space: wanted Box, Discrete, MultiBinary, MultiDiscrete or a Dict of them, got {space}")
    kind = getattr(torch, str(dtype), None)
    kind = WIDER.get(kind, kind)  # type: ignore[arg-type]
    if kind not in FLOATS + INTEGERS:
        raise ValueError(f"space: wanted a numeric dtype, got {dtype} in {space}")
    return tuple(int(n) for n in shape), torch.float32 if kind == torch.float64 else kind
