"""A buffer behind one small interface: add, draw, report errors, copy. The memories of this library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory

ACTIONS = 2
PARAMS = CrystalParams.anchored(time_unit=20, every=50, alpha=2.0, interference="none", backup=0.0)


@dataclass
class Drawn:
    """A batch: what is in it, as NumPy arrays [B, …], and where it was stored."""

    obs: NDArray[Any]
    reward: NDArray[Any]
    next_obs: NDArray[Any]
    weight: NDArray[Any]
    index: NDArray[Any]
    discount: NDArray[Any] | None = None
    """Factor of the value of `next_obs`; None where the library applies it itself."""
    whole: Any = None
    """The batch as the library itself has it."""


class Subject:
    """A buffer with this many slots, for observations of a shape and dtype, and two actions."""

    def __init__(
        self, slots: int, shape: tuple[int, ...] = (2,), dtype: Any = np.float32, n_step: int = 1, gamma: float = 0.9
    ) -> None:
        self.slots, self.shape, self.dtype, self.n_step, self.gamma = slots, shape, np.dtype(dtype), n_step, gamma
        self.build()

    def build(self) -> None:
        raise NotImplementedError

    def add(self, number: int, ends: bool = False, cut: bool = False) -> None:
        """Store a step whose observations, action and reward follow from its number; `cut` by a time limit."""
        self.put(np.full(self.shape, number), float(number), np.full(self.shape, number + 1), ends, cut)

    def put(self, obs: NDArray[Any], reward: float, next_obs: NDArray[Any], ends: bool, cut: bool = False) -> None:
        raise NotImplementedError

    def draw(self, size: int) -> Drawn:
        raise NotImplementedError

    def report(self, drawn: Drawn, errors: NDArray[Any]) -> None:
        """Tell the buffer the TD errors of a drawn batch, the way its library does."""
        self.memory.update(drawn.whole, torch.as_tensor(errors, dtype=torch.float32))

    def copied(self, copy: Callable[[Any], Any]) -> Subject:
        """This subject with a copy of its buffer."""
        raise NotImplementedError

    @property
    def memory(self) -> Any:
        raise NotImplementedError

    def _other(self, **changed: Any) -> Any:
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | changed
        return other


class Native(Subject):
    kind: Any

    def build(self) -> None:
        obs = {"obs": self.shape, "obs_dtype": getattr(torch, str(self.dtype))}
        crystal = {"params": PARAMS, "anchor": {"q": (ACTIONS,)}} if self.kind is CrystalMemory else {}
        steps = {"n_step": self.n_step, "gamma": self.gamma}
        self.own = self.kind(self.slots, action=ACTIONS, seed=3, **obs, **steps, **crystal)

    def put(self, obs: NDArray[Any], reward: float, next_obs: NDArray[Any], ends: bool, cut: bool = False) -> None:
        before, after = obs.astype(self.dtype), next_obs.astype(self.dtype)
        self.own.add(Transition(before, int(reward) % ACTIONS, reward, after, ends, cut))

    def draw(self, size: int) -> Drawn:
        b = self.own.sample(size)
        return Drawn(*(x.numpy() for x in (b.obs, b.reward, b.next_obs, b.weight, b.index, b.discount)), whole=b)

    def copied(self, copy: Callable[[Any], Any]) -> Subject:
        copied: Subject = self._other(own=copy(self.own))
        return copied

    @property
    def memory(self) -> Any:
        return self.own


class Uniform(Native):
    kind = UniformMemory


class Reservoir(Native):
    kind = ReservoirMemory


class Prioritized(Native):
    kind = PrioritizedMemory


class Crystal(Native):
    kind = CrystalMemory
