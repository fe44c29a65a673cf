"""The payload of stacked observations: rows hold the numbers of frames, and each frame is stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.memory.storage.arena import Arena, refuse_if_too_large
from crystalrl.memory.storage.checks import Named, Problems, between, booleans, finite, row_problems
from crystalrl.memory.storage.frames import BLANK, FramePool, first_frames, frame_bytes, needed, pool_bytes
from crystalrl.memory.storage.layout import Layout, stored_layout
from crystalrl.memory.storage.spec import FLOATS, StorageSpec

ROLES = ("obs", "next_obs")


def arena_for(spec: StorageSpec, layout: Layout) -> Arena:
    """An arena for packed rows of this layout."""
    return Arena(spec, layout) if spec.stack is None else FrameArena(spec, layout)


def recent_frames(spec: StorageSpec) -> int:
    """Frames of an environment with which new ones are compared: those of its last experiences, also with n steps
    between obs and next_obs."""
    assert spec.stack is not None
    return spec.stack + 2 * spec.n_step


class Fields(dict[str, Any]):
    """The fields of the first W slots by role; observations are put together when they are read."""

    def __init__(self, arena: FrameArena, slots: int | None) -> None:
        views = arena.stored.torch_views(arena.rows[:, :slots])
        self._arena, self._numbers = arena, {role: views.pop(role).numpy() for role in ROLES}
        super().__init__(views, context=views.get("context"))

    def __missing__(self, role: str) -> Tensor:
        self[role] = found = torch.from_numpy(self._arena.observed(self._numbers[role]))
        return found


class FrameArena(Arena):
    """An arena that takes in and returns the same rows as `Arena`, and keeps shorter ones (`stored`).

    A new frame is compared, byte by byte, with the last frames of its environment (`recent`). Nothing is assumed about
    how observations follow each other: a frame that is not found is stored. Invariant: the pool counts, for each frame,
    the places in `rows` that name it.
    """

    own_state: ClassVar[tuple[str, ...]] = ("frames.pixels", "frames.recent")

    def __init__(self, spec: StorageSpec, layout: Layout) -> None:
        assert spec.stack is not None
        refuse_if_too_large(pool_bytes(spec), torch.device(spec.device), f"a pool of {first_frames(spec)} frames")
        super().__init__(spec, stored_layout(spec))
        self.stored, self.layout = self.layout, layout
        for role in ROLES:
            del self.columns[role]  # they hold numbers
        self.pool = FramePool(frame_bytes(spec), first_frames(spec))
        self.recent: list[list[int]] = [[] for _ in range(self.lanes * spec.envs)]
        """Numbers of the frames last seen in each environment, newest first. They may be free or in other use."""
        self._bytes = self._numpy_rows.view(np.uint8)
        self._numbers = self._numbers_in(self._numpy_rows)
        begin = layout.fields["obs"].begin * layout.fields["obs"].dtype.itemsize
        self._frames = slice(begin, begin + 2 * spec.stack * self.pool.size)
        """Bytes of a given row that hold the frames of obs and next_obs, which are adjacent."""
        others = [name for name in layout.fields if name not in ROLES]
        self._copied = [(_bytes_of(self.stored, name), _bytes_of(layout, name)) for name in others]

    def _numbers_in(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Frames int32[…, 2·k] that stored rows name, as a view: obs and next_obs are adjacent."""
        first, last = (self.stored.fields[role] for role in ROLES)
        return rows.view(np.int32)[..., first.begin : last.begin + last.size]

    def reserve(self, width: int) -> None:
        frames = needed(self.spec, width)
        if self.pool.room() < frames:
            refuse_if_too_large(self.pool.missing(frames), self.device, f"a pool of more than {len(self.pool)} frames")
            self.pool.reserve(frames)

    def write(self, rows: Tensor, slots: Tensor) -> None:
        given, chosen, at = rows.numpy(), slots.numpy(), (slots + self._base).numpy()
        windows = chosen.shape[1] // self.spec.envs
        for lane, place in np.argwhere(chosen >= 0).tolist():
            self._write(given[lane, place], at[lane, place], lane * self.spec.envs + place // windows)

    def write_one(self, row: NDArray[np.int64], slot: int) -> None:
        self._write(row, slot, 0)

    def _write(self, row: NDArray[np.int64], at: int, env: int) -> None:
        """Store one given row of an environment at a position of `flat_rows`; what was there is released."""
        content, recent = row.view(np.uint8), self.recent[env]
        replaced = self._numbers[at].tolist()
        self._numbers[at] = [self._refer(frame, recent) for frame in content[self._frames].reshape(-1, self.pool.size)]
        self.pool.release(replaced)
        del recent[recent_frames(self.spec) :]
        for here, there in self._copied:
            self._bytes[at, here] = content[there]

    def _refer(self, frame: NDArray[np.uint8], recent: list[int]) -> int:
        likely = self.stored.fields["obs"].size - 1  # where it is if stacks shift by one frame per step
        number = self.pool.refer(frame, recent[likely::-1] + recent[likely + 1 :])
        if number in recent:
            recent.remove(number)
        if number != BLANK:
            recent.insert(0, number)
        return number

    def observed(self, numbers: NDArray[np.int32]) -> NDArray[Any]:
        """Observations [..., *shape] made of frames [..., k]."""
        field, (*lead, k) = self.layout.fields["obs"], numbers.shape
        frames = self.pool.take(numbers).reshape(*lead, k * self.pool.size)
        return frames.view(field.numpy_dtype).reshape(*lead, *field.shape)

    def _views(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """All fields of stored rows, with the observations put together."""
        numbers = self._numbers_in(rows)
        both = self.observed(numbers.reshape(*rows.shape[:-1], 2, numbers.shape[-1] // 2))
        return self.stored.numpy_views(rows) | dict(zip(ROLES, np.moveaxis(both, rows.ndim - 1, 0), strict=True))

    def _given(self, rows: NDArray[np.int64]) -> Tensor:
        """Stored rows as they were given."""
        out = np.zeros((*rows.shape[:-1], self.layout.words), np.int64)
        columns = self.layout.numpy_views(out)
        for name, view in self._views(rows).items():
            columns[name][...] = view
        return torch.from_numpy(out)

    def read(self, slots: Tensor) -> Tensor:
        return self._given(self._numpy_rows[(slots + self._base).numpy()])

    def read_lane(self, lane: int, slots: Tensor) -> Tensor:
        return self._given(self.rows[lane, slots].numpy())

    def read_fields(self, slots: Tensor, squeeze: bool) -> dict[str, Any]:
        at = slots.numpy()
        views = self._views(self._numpy_rows.take(at[0] if squeeze else at + self._base.numpy(), axis=0))
        return self._by_role({name: torch.from_numpy(view) for name, view in views.items()})

    def fields(self, slots: int | None = None) -> Mapping[str, Any]:
        return Fields(self, slots)

    def copy_rows(self, source: Arena, at: Tensor) -> None:
        """See `Arena.copy_rows`. The copy can be read, not written: it counts no references."""
        assert isinstance(source, FrameArena)
        self.flat_rows[at] = source.flat_rows[at]
        self.pool.reserve(source.pool.used)
        numbers = np.unique(self._numbers[at.numpy()])
        self.pool.put(numbers, source.pool.take(numbers))

    def clear(self) -> None:
        self.flat_rows.zero_()
        self.pool.clear()
        for recent in self.recent:
            recent.clear()

    def state(self) -> dict[str, Tensor]:
        """All frames, and `recent` int32[L, E, H], filled up with 0."""
        recent = np.zeros((len(self.recent), recent_frames(self.spec)), np.int32)
        for row, numbers in zip(recent, self.recent, strict=True):
            row[: len(numbers)] = numbers
        shaped = torch.from_numpy(recent).view(self.lanes, self.spec.envs, -1)
        return dict(zip(self.own_state, (self.pool.contents(), shaped), strict=True))

    def fill(self, state: Named) -> None:
        self.pool.fill(state["pixels"].cpu().numpy(), self._numbers)
        given = state["recent"].flatten(0, 1).tolist()
        self.recent = [[number for number in numbers if number != BLANK] for numbers in given]

    def problems(self, rows: Tensor, state: Named) -> Problems:
        yield from row_problems(self.stored, self.spec.action, rows)
        if state:
            yield from self._state_problems(state)
        used = len(state["pixels"]) if state else self.pool.used
        numbers = self._numbers_in(rows.cpu().contiguous().numpy())
        yield from between("frames", torch.from_numpy(numbers), BLANK, used - 1)
        if not state and not np.array_equal(self.pool.count[:used], FramePool.references(self._numbers, used)):
            yield "frames: wanted counts of the places that name each frame, got others"

    def _state_problems(self, state: Named) -> Problems:
        pixels, recent = state["pixels"], state["recent"]
        most = 1 + needed(self.spec, self.slots) + needed(self.spec, self.spec.envs * self.spec.n_step)
        if pixels.dtype != torch.uint8 or pixels.shape[1:] != (self.pool.size,) or not 1 <= len(pixels) <= most:
            yield f"frames: wanted uint8[1 … {most}, {self.pool.size}], got {pixels.dtype} {list(pixels.shape)}"
        shape = (self.lanes, self.spec.envs, recent_frames(self.spec))
        if recent.dtype != torch.int32 or tuple(recent.shape) != shape:
            yield f"recent frames: wanted int32 {list(shape)}, got {recent.dtype} {list(recent.shape)}"
        yield from between("recent frames", recent, BLANK, len(pixels) - 1)
        yield from between("the blank frame", pixels[BLANK], 0, 0)
        dtype = self.spec.obs_dtypes[""]
        if dtype in FLOATS:
            yield from finite("frames", pixels.contiguous().view(dtype))
        elif dtype == torch.bool:
            yield from booleans("frames", pixels.contiguous().view(dtype))

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.pool.nbytes


def _bytes_of(layout: Layout, name: str) -> slice:
    field = layout.fields[name]
    return slice(field.begin * field.dtype.itemsize, field.stop)
