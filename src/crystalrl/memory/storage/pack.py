"""Packing: a transition is checked once and laid out as rows. Nothing is stored yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED, Layout, column_name
from crystalrl.memory.storage.spec import Shape, StorageSpec
from crystalrl.types import ArrayLike, Transition

LARGEST = float(np.finfo(np.float32).max)
EXACT = 1 << 24
"""Integers up to this size are exact in float32."""
Value = TypeVar("Value")


class Packer:
    """Checks experiences. Invariant: what `pack` returns is finite and of the declared shapes and dtypes.

    Exception: values of tensors given on a CUDA device are not read, because that would synchronise. Bad values set
    `corrupt`, and `check` raises. Backends that are not on the host report bad updates in the same way.
    """

    def __init__(self, spec: StorageSpec, layout: Layout) -> None:
        self.spec, self.layout = spec, layout
        self.lanes, self.device = spec.lanes or 1, torch.device(spec.device)
        on_cpu = self.device.type == "cpu"
        self.corrupt = torch.zeros((), dtype=torch.bool, device=self.device)
        shape = (self.lanes, spec.envs, layout.words)
        self.scratch = torch.zeros(shape, dtype=torch.int64, device="cpu", pin_memory=not on_cpu)
        self.scratch_array = self.scratch.numpy()
        """What `pack` returns on CPU."""
        self._columns = layout.numpy_views(self.scratch_array)
        self._finite, self._spans = backend_for(self.device).finite, layout.float_spans(self.scratch_array)
        self._ends = b"", b""
        """Flags that the scratch rows hold."""
        self.lead, self._plain = self._leading_shapes(), not isinstance(spec.obs, Mapping)
        self._shapes = {name: [(*lead, *f.shape) for lead in self.lead] for name, f in layout.fields.items()}
        self._copied = None if on_cpu else torch.cuda.Event()

    def pack(self, t: Transition) -> Tensor:
        """Check a transition and lay it out as rows int64[L, E, W] on the arena's device.

        On CPU the rows are a scratch buffer that the next call overwrites. Nothing is stored yet.
        """
        if self.device.type == "cuda" and isinstance(t.reward, Tensor) and t.reward.is_cuda:
            return self._pack_on_device(t)
        if self._copied is not None:
            self._copied.synchronize()
        if self._plain:
            self._put("obs", t.obs)  # type: ignore[arg-type]
            self._put("next_obs", t.next_obs)  # type: ignore[arg-type]
        else:
            for role, given in (("obs", t.obs), ("next_obs", t.next_obs)):
                for name in self.spec.obs_shapes:
                    self._put(column_name(role, name), _part(given, role, name, self.spec))
        self._put("action", t.action)
        self._put("reward", t.reward)
        self._put_ends(self._flag("terminated", t.terminated), self._flag("truncated", t.truncated))
        self._put_context(t.context)
        self._refuse_values()
        if self._copied is None:
            return self.scratch
        rows = self.scratch.to(self.device, non_blocking=True)
        self._copied.record()
        return rows

    def _leading_shapes(self) -> tuple[Shape, ...]:
        """Leading shapes a field may have: [L, E] with lanes; [E], or nothing for one environment, without."""
        if self.spec.lanes is not None:
            return ((self.lanes, self.spec.envs),)
        return ((), (1,)) if self.spec.envs == 1 else ((self.spec.envs,),)

    def _put(self, name: str, value: ArrayLike) -> None:
        """Copy one field into the scratch rows; leading axes of size one are added by broadcasting."""
        column = self._columns[name]
        if type(value) is float and column.size == 1 and column.dtype == np.float32 and -LARGEST < value < LARGEST:
            column.fill(value)  # a number, such as the reward of a single environment
            return
        array = value if type(value) is np.ndarray else _array(name, value)
        if array.shape not in self._shapes[name]:
            wanted = " or ".join(map(str, self._shapes[name]))
            raise ValueError(f"{name}: wanted shape {wanted}, got {array.shape}")
        if array.dtype == column.dtype:
            column[...] = array
            return
        _refuse_kind(name, array, column.dtype)
        with np.errstate(over="ignore"):  # values too large for the stored dtype become infinite and are refused
            column[...] = array

    def _put_context(self, value: ArrayLike | None) -> None:
        self._refuse_context(value)
        if value is not None:
            array = _array("context", value)
            self._put("context", np.broadcast_to(array, self.lead[-1]) if array.ndim == 0 else array)

    def _refuse_context(self, value: ArrayLike | None) -> None:
        if (value is not None) != self.spec.context:
            wanted = "an integer id" if self.spec.context else "none (the memory was built with context=False)"
            raise ValueError(f"context: wanted {wanted}, got {value!r}")

    def _put_ends(self, terminated: bytes, truncated: bytes) -> None:
        """Write what follows from the flags, unless the rows hold it from the step before: most steps end nothing."""
        if self._ends == (terminated, truncated):
            return
        ends = (np.frombuffer(flags, np.uint8).astype(np.int64) for flags in (terminated, truncated))
        first, second = (flags.reshape(-1, 1) if len(flags) == 1 else flags.reshape(self.lanes, -1) for flags in ends)
        self._columns["ending"][...] = first * TERMINATED + second * TRUNCATED
        self._columns["discount"][...] = self.spec.gamma * (1 - first)
        self._ends = terminated, truncated

    def _flag(self, name: str, value: ArrayLike) -> bytes:
        """A boolean or 0/1 flag as a byte, or as one for each environment."""
        if isinstance(value, bool | np.bool_):
            return b"\1" if value else b"\0"
        if type(value) is np.ndarray and value.dtype == bool and value.shape == self.lead[-1]:
            return value.tobytes()
        array = _array(name, value)
        if array.ndim and array.shape not in self.lead:
            raise ValueError(f"{name}: wanted shape {' or '.join(map(str, self.lead))}, got {array.shape}")
        if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():
            raise ValueError(f"{name}: wanted booleans, got {array.dtype} values {array.reshape(-1)[:4]}")
        return array.astype(bool).tobytes()

    def _refuse_values(self) -> None:
        """Raise if the scratch rows hold NaN, an infinity or an unknown action."""
        for span in self._spans:
            if not self._finite(span):
                bad = [name for name, c in self._columns.items() if c.dtype.kind == "f" and not np.isfinite(c).all()]
                raise ValueError(f"{', '.join(bad)}: wanted finite numbers of {span.dtype}, got NaN or infinity")
        actions = self.spec.action
        if isinstance(actions, int):
            column = self._columns["action"]
            low, high = (column.item(),) * 2 if column.size == 1 else (column.min(), column.max())
            if low < 0 or high >= actions:
                raise ValueError(f"action: wanted 0 … {actions - 1}, got {low} … {high}")

    def _pack_on_device(self, t: Transition) -> Tensor:
        """`pack` for tensors already on the device: no host synchronisation, so values are checked later."""
        lead = (self.lanes, self.spec.envs)
        rows = torch.zeros(*lead, self.layout.words, dtype=torch.int64, device=self.device)
        columns = self.layout.torch_views(rows)
        given: dict[str, Any] = {"action": t.action, "reward": t.reward}
        for role, value in (("obs", t.obs), ("next_obs", t.next_obs)):
            given |= {column_name(role, name): _part(value, role, name, self.spec) for name in self.spec.obs_shapes}
        self._refuse_context(t.context)
        if t.context is not None:
            given["context"] = torch.as_tensor(t.context, device=self.device).expand(self.lead[-1])
        for name, value in given.items():
            _refuse_tensor(name, value, columns[name], self._shapes[name])
            columns[name].copy_(value.reshape(columns[name].shape))
            if name == "reward" and not value.is_floating_point():
                self.corrupt |= (columns[name].to(torch.int64) != value.reshape(columns[name].shape)).any()
        for span in self.layout.float_parts(rows):
            self.corrupt |= (span - span).any()  # NaN, not zero, where a value is not finite
        if isinstance(self.spec.action, int):
            self.corrupt |= ((columns["action"] < 0) | (columns["action"] >= self.spec.action)).any()
        ends = [
            torch.as_tensor(x, device=self.device).bool().expand(self.lead[-1]) for x in (t.terminated, t.truncated)
        ]
        terminated, truncated = (end.reshape(lead) for end in ends)
        flags = terminated.view(torch.uint8), truncated.view(torch.uint8)
        torch.add(*flags, alpha=TRUNCATED, out=columns["ending"])  # TERMINATED is one
        torch.mul(~terminated, self.spec.gamma, out=columns["discount"])
        return rows

    def mask(self, name: str, value: ArrayLike) -> Tensor:
        """A boolean per environment, checked, as bool[L, E] on the arena's device."""
        mask = torch.as_tensor(unmasked(name, value), device=self.device)
        spec = self.spec
        wanted = (self.lanes, spec.envs) if spec.lanes is not None else (spec.envs,)
        if tuple(mask.shape) != wanted and not (spec.lanes is None and spec.envs == 1 and mask.dim() == 0):
            raise ValueError(f"{name}: wanted shape {wanted}, got {tuple(mask.shape)}")
        if mask.dtype != torch.bool:
            raise TypeError(f"{name}: wanted booleans, got {mask.dtype}")
        return mask.reshape(self.lanes, spec.envs)

    def check(self) -> None:
        """Raise if bad input has set `corrupt` (this synchronises)."""
        if bool(self.corrupt):
            raise ValueError(
                "wanted finite numbers, known actions and slots, but NaN, infinity, a wrong action or slot was given"
            )


def _part(given: Any, role: str, name: str, spec: StorageSpec) -> Any:
    if not isinstance(spec.obs, Mapping):
        return given
    if not isinstance(given, Mapping) or set(given) != set(spec.obs):
        got = sorted(given) if isinstance(given, Mapping) else type(given).__name__
        raise ValueError(f"{role}: wanted a dict with keys {sorted(spec.obs)}, got {got}")
    return given[name]


def unmasked(name: str, value: Value) -> Value:
    """The value; raises if it is a masked array with masked entries, whose values mean nothing."""
    if isinstance(value, np.ma.MaskedArray) and (masked := int(np.sum(value.mask))):
        raise ValueError(f"{name}: wanted values, got a masked array with {masked} masked ones")
    return value


def _array(name: str, value: ArrayLike) -> NDArray[Any]:
    if isinstance(value, np.ndarray):
        return np.asarray(unmasked(name, value))
    if not isinstance(value, Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()  # NumPy has no bfloat16


def _refuse_kind(name: str, array: NDArray[Any], wanted: np.dtype[Any]) -> None:
    """float → float is cast, integer → integer if the values fit; a reward may be any real number."""
    given, target = (
        array.dtype.kind.replace("u", "i").replace("b", "i"),
        wanted.kind.replace("u", "i").replace("b", "i"),
    )
    if given != target and not (name == "reward" and given == "i"):
        raise TypeError(f"{name}: wanted {wanted}, got {array.dtype} (integers and floats are not converted silently)")
    if given != target:
        _refuse_rounded(name, array)
    if target == "i" and not np.can_cast(array.dtype, wanted):
        limits = (0, 1) if wanted == np.bool_ else (np.iinfo(wanted).min, np.iinfo(wanted).max)
        if array.size and (array.min() < limits[0] or array.max() > limits[1]):
            raise ValueError(f"{name}: wanted {wanted} values in {limits}, got {array.min()} … {array.max()}")


def _refuse_rounded(name: str, array: NDArray[Any]) -> None:
    """Raise if an integer would be rounded by float32."""
    for value in array[(array > EXACT) | (array < -EXACT)].reshape(-1).tolist() if array.dtype.kind != "b" else ():
        if int(np.float32(value)) != value:
            raise ValueError(f"{name}: wanted numbers that float32 holds exactly, got the integer {value}")


def _refuse_tensor(name: str, value: Any, column: Tensor, shapes: list[Shape]) -> None:
    """The checks of `_put` on shape and kind, for a tensor on the device; no value is read."""
    if not isinstance(value, Tensor) or value.device.type != column.device.type:
        raise TypeError(f"{name}: wanted a tensor on {column.device} like the reward, got {type(value).__name__}")
    if tuple(value.shape) not in shapes:
        raise ValueError(f"{name}: wanted shape {' or '.join(map(str, shapes))}, got {tuple(value.shape)}")
    if value.is_floating_point() != column.is_floating_point() and name != "reward":
        raise TypeError(
            f"{name}: wanted {column.dtype}, got {value.dtype} (integers and floats are not converted silently)"
        )
