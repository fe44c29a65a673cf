"""The base class of all memories: checks input, combines payload, ledger and sampler, returns batches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import backend_for, recording
from crystalrl.memory.exclusive import Calls, exclusive
from crystalrl.memory.ledger import Ledger
from crystalrl.memory.sampling.sampler import Sampler
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.batches import Anchored, gather_batch
from crystalrl.memory.storage.checks import refuse
from crystalrl.memory.storage.external import AnyArena, ExternalArena
from crystalrl.memory.storage.frame_arena import arena_for
from crystalrl.memory.storage.header import CheckpointError, refuse_sparse, understand
from crystalrl.memory.storage.layout import Layout
from crystalrl.memory.storage.nstep import Closed, NStep
from crystalrl.memory.storage.pack import Packer
from crystalrl.memory.storage.spec import StorageOptions, StorageSpec, from_spaces
from crystalrl.memory.stored import StoredMemory, restored
from crystalrl.memory.updates import checked_update
from crystalrl.random import Streams
from crystalrl.types import ArrayLike, Batch, Evaluate, Transition


class ReplayMemory(StoredMemory, complete=False):
    """Payload (`arena`) + ledger + sampler + unfinished n-step windows + random streams + clock.

    Invariant: the occupied slots of the ledger are those written in the arena; `time[l]` counts the valid transitions
    added to lane l. A subclass sets `params`, `ledger` and `sampler` in its constructor.

    A memory is not thread-safe. A call that overlaps with a call of the same memory in another thread raises
    RuntimeError, with nothing changed.
    """

    codes_frames: ClassVar[bool] = False
    """Whether the frames of stacked observations are also compressed: useful where experiences outlive the steps before
    and after them, with which they share frames."""
    params: object = None
    ledger: Ledger
    """Decides which slots are written."""
    sampler: Sampler
    """Decides which slots are drawn."""
    anchors: Anchored | None = None
    """What a batch contains besides the experiences."""

    def __init__(self, spec: StorageSpec, arena: ExternalArena | None = None) -> None:
        if arena is not None and spec.stack is not None:
            raise ValueError(f"stack: wanted None, because another library stores the experiences, got {spec.stack}")
        self.spec = spec
        self.calls: Calls = {}
        self.lanes, self.capacity = spec.lanes or 1, spec.capacity
        self.device = torch.device(spec.device)
        self.backend = backend_for(self.device)
        self.deliver = torch.device(spec.deliver) if spec.deliver is not None else self.device
        """Device of the batches that `sample` returns."""
        self.streams = Streams(spec.seeds, self.device)
        self.packer = Packer(spec, Layout(spec))
        new = partial(arena_for, spec, self.packer.layout, self.codes_frames)
        self.arena: AnyArena = new() if arena is None else arena
        self.windows = NStep(spec, self.packer.layout) if spec.n_step > 1 else None
        self.time = torch.zeros(self.lanes, dtype=torch.int64, device=self.device)
        self._numpy_time = self.time.numpy() if self.device.type == "cpu" else np.empty(0, np.int64)
        self._on_cuda = self.device.type == "cuda"
        self._width = spec.envs * spec.n_step
        """Slots that one call may write in each lane."""
        self._outer = outer_shape(spec)
        self._direct = self.backend.on_host and spec.n_step == 1
        """Whether steps are stored without tensors."""
        self._all_valid = torch.ones(self.lanes, spec.envs, dtype=torch.bool, device=self.device)
        self._filled = False  # whether every lane is known to hold an experience

    @classmethod
    def from_spaces(
        cls, observation_space: Any, action_space: Any, capacity: int, **options: Unpack[StorageOptions]
    ) -> Self:
        """A memory for an environment's spaces (of a single environment; pass `envs=` for parallel ones)."""
        merged: dict[str, Any] = {**from_spaces(observation_space, action_space), **options}
        return cls(capacity, **merged)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Experiences stored, in the fullest lane."""
        return int(self.ledger.count.max())

    def __repr__(self) -> str:
        lanes = "" if self.spec.lanes is None else f", lanes={self.lanes}"
        extra = "" if self.params is None else f", {self.params}"
        held = f"{len(self):,} of {self.capacity:,}"
        return f"{type(self).__name__}({held}, obs={self.spec.obs}, action={self.spec.action}{lanes}{extra})"

    @property
    def due(self) -> bool:
        """Whether it is time to consolidate."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes held: payload and ledger."""
        return self.arena.nbytes + int(self.ledger.nbytes)

    @exclusive
    def add(self, transition: Transition, *, valid: ArrayLike | None = None) -> Tensor:
        """Store one step of every environment. Returns the slots written; −1: pending, not valid or not kept.

        `valid` [L, E] / [E] / scalar: False marks steps that are not transitions (Gymnasium's autoreset step). The
        result is int64 of that shape; with n-step returns it has one more axis of size n, because the end of an episode
        closes n windows.
        """
        return self._add(transition, valid)

    def _add(self, transition: Transition, valid: ArrayLike | None, c: Tensor | None = None) -> Tensor:
        """Implements `add`; c: see `Ledger.commit`."""
        self._make_room()
        rows = self.packer.pack(transition)
        if not self._direct or valid is not None or c is not None:
            return self._add_rows(rows, valid, c)
        slots = np.empty((self.lanes, self.spec.envs), np.int64)
        self.ledger.admit(slots, self._numpy_time)  # may raise: nothing has changed yet
        return self._put(slots)

    def _put(self, slots: NDArray[np.int64]) -> Tensor:
        """Store the packed rows in slots [L, E], on the host."""
        self.arena.put(self.packer.scratch_array, slots)
        return torch.from_numpy(slots.reshape(self._outer))

    def _make_room(self) -> None:
        if not self._on_cuda or not recording(self.device):
            self.arena.reserve(self._width)  # may raise: nothing has changed yet

    def _add_rows(self, rows: Tensor, valid: ArrayLike | None, c: Tensor | None) -> Tensor:
        mask = self._all_valid if valid is None else self.packer.mask("valid", valid)
        steps = self.spec.envs if valid is None else mask.sum(-1)
        if self.windows is not None:
            slots = self._store_closed(self.windows, self.windows.push(rows, mask), steps, c)
        else:
            slots = self._store(rows, mask, steps, c)
        return slots.reshape(self._outer)

    def _store_closed(self, windows: NStep, closed: Closed, steps: Tensor | int, c: Tensor | None = None) -> Tensor:
        slots = self._store(closed.rows, closed.real, steps, c)
        windows.keep(closed.open)
        return slots

    def _store(self, rows: Tensor, valid: Tensor, steps: Tensor | int, c: Tensor | None = None) -> Tensor:
        """Store rows [L, M, W] where valid bool[L, M]; `steps` int64[L]: valid transitions to add to the clock."""
        slots = self.ledger.allocate(valid)  # may raise: nothing has changed yet
        self.time += steps
        self.arena.write(rows, slots)
        self.ledger.commit(slots, c)
        return slots

    @exclusive
    def reserve(self) -> None:
        """The part of `add` that runs on the host. `add` runs it itself, except while a CUDA graph is recorded: call
        this before each replay of a recorded `add`.
        """
        self.ledger.reserve(self._width)

    @exclusive
    def end_episode(self, ended: ArrayLike | None = None, episode_return: ArrayLike | None = None) -> Tensor:
        """Close the open n-step windows of the environments that `ended` (None: all) as truncated.

        `episode_return` [L, E] / [E] / scalar is for memories that use returns. Returns the slots written.
        """
        mask = self._ended_mask(ended)
        if self.windows is None:
            return torch.full(self._outer, -1, device=self.device)
        self._make_room()
        return self._store_closed(self.windows, self.windows.flush(mask), 0).reshape(self._outer)

    def _ended_mask(self, ended: ArrayLike | None) -> Tensor:
        return self._all_valid if ended is None else self.packer.mask("ended", ended)

    @exclusive
    def sample(self, size: int) -> Batch:
        """Draw `size` experiences per lane, with replacement; with their anchors, if the memory has any."""
        self._refuse_size(size)
        slots, weight, ticket = self.sampler.draw(size, self.time)
        anchors = None if self.anchors is None else self.anchors.at(slots)
        squeeze = self.spec.lanes is None
        return gather_batch(self.arena, slots, weight, to=self.deliver, squeeze=squeeze, ticket=ticket, anchors=anchors)

    def _refuse_size(self, size: int) -> None:
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ValueError(f"size: wanted a whole number ≥ 1, got {size!r}")
        if self._filled:
            return
        if empty := [lane for lane, count in enumerate(self.sampler.count.tolist()) if count == 0]:
            where = "" if self.spec.lanes is None else f" in lanes {empty[:8]}"
            raise ValueError(f"sample: wanted at least one stored experience, got an empty memory{where}")
        self._filled = True  # experiences are replaced, not removed: no need to check again until `clear`

    @exclusive
    def update(self, drawn: Batch | ArrayLike, td_error: ArrayLike) -> None:
        """Report TD errors (signed or absolute) [L, B] or [B] of a drawn batch, or of slots given as integers.

        Entries of a batch whose slot was rewritten or emptied since the draw are skipped, however many batches are
        outstanding. Slots given as integers must hold an experience, and mean the one they hold now.
        """
        slots, error, ticket = checked_update(self.spec, self.device, drawn, td_error)
        plain = ticket is None and (self.sampler.learns or not isinstance(drawn, Batch))
        if plain and not self.backend.on_host:
            slots = torch.where(self.sampler.occupied(slots), slots, -1)  # reported at the next check
        magnitude = self.backend.writes.magnitude(error, slots, self.capacity, self.packer.corrupt)
        if plain and self.backend.on_host and not bool(self.sampler.occupied(slots).all()):
            raise ValueError("index: wanted slots that hold an experience, got empty ones (from before a clear?)")
        self.sampler.update(slots, magnitude, ticket)

    @exclusive
    def consolidate(self, evaluate: Evaluate) -> Any:
        """Nothing to consolidate: returns None."""
        self.packer.check()

    def inspected(self, lane: int, most: int) -> dict[str, Any]:
        """Empty: the experiences of this memory have no state. See `CrystalMemory.experiences`."""
        return {}

    @exclusive
    def clear(self) -> None:
        """Forget all experiences. Parameters, clock and random streams stay."""
        if self._on_cuda:
            self.arena.rows.masked_fill_(self.packer.corrupt, 0)  # no NaN stays behind
        self.packer.corrupt.zero_()
        self.ledger.clear()
        self.arena.clear()
        self._filled = False
        if self.windows is not None:
            self.windows.clear()

    @exclusive
    def check(self) -> None:
        """Raise AssertionError if an invariant is broken, naming it (on CUDA, ValueError for NaN or infinity)."""
        self.packer.check()
        self.ledger.check()
        refuse(self._problems(self._tensors()), AssertionError)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy use the saved state: tensors that are views of one storage would be separated otherwise."""
        arrays = {name: tensor.numpy() for name, tensor in self.state_dict().items()}
        return _restored, (self._header(), arrays, str(self.device))


def outer_shape(spec: StorageSpec) -> tuple[int, ...]:
    """Shape of the slots that `add` returns: [L, E, n] without the axes that the memory's user does not pass."""
    lanes = () if spec.lanes is None else (spec.lanes,)
    envs = (spec.envs,) if lanes or spec.envs > 1 else ()
    return (*lanes, *envs, spec.n_step) if spec.n_step > 1 else (*lanes, *envs)


def load_memory(path: str | PathLike[str], device: str | torch.device = "cpu") -> ReplayMemory:
    """Load a memory of any kind from `path`. A nearly empty one of several GB is refused: build it and call `load`."""
    header, state = checkpoint.read(path)
    try:
        refuse_sparse(understand(header, state), state)
        return _restored(header, state, device)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _restored(header: Mapping[str, Any], values: Mapping[str, Any], device: str | torch.device) -> ReplayMemory:
    memory = restored(header, {name: torch.as_tensor(value, device="cpu") for name, value in values.items()}, device)
    assert isinstance(memory, ReplayMemory)
    return memory
