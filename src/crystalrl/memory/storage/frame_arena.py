"""The payload of stacked observations: rows hold the numbers of frames, and each frame is stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.memory.storage.arena import Arena, refuse_if_too_large
from crystalrl.memory.storage.checks import Named, Problems, between, row_problems
from crystalrl.memory.storage.frame_files import from_pixels, state_problems
from crystalrl.memory.storage.frames import (
    BASE,
    BLANK,
    FramePool,
    frame_bytes,
    frame_steps,
    needed,
    recent_frames,
    references,
)
from crystalrl.memory.storage.layout import Layout, stored_layout
from crystalrl.memory.storage.spec import StorageSpec

ROLES = ("obs", "next_obs")
GROUP = 32
"""Maximum number of consecutive frames that are coded relative to the same base."""


def arena_for(spec: StorageSpec, layout: Layout, coded: bool) -> Arena:
    """An arena for packed rows of this layout; `coded`: whether frames that are stored once are coded."""
    return Arena(spec, layout) if spec.stack is None else FrameArena(spec, layout, coded)


class Fields(dict[str, Any]):
    """The fields of the first W slots by role; observations are assembled when they are read."""

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
    how observations follow each other: a frame that is not found is stored, with the base of the last frame of its
    environment. Invariant: the pool counts, for each frame, the places in `rows` and in `recent` that name it.
    """

    own_state: ClassVar[tuple[str, ...]] = tuple(
        f"frames.{name}" for name in ("codes", "length", "base", "recent", "since")
    )

    def __init__(self, spec: StorageSpec, layout: Layout, coded: bool = True) -> None:
        assert spec.stack is not None
        super().__init__(spec, stored_layout(spec))
        self.stored, self.layout = self.layout, layout
        for role in ROLES:
            del self.columns[role]  # they hold numbers
        self.pool = FramePool(frame_bytes(spec), frame_steps(spec), coded)
        self.recent: list[list[tuple[int, bytes]]] = [[] for _ in range(self.lanes * spec.envs)]
        """Numbers and contents of the frames last seen in each environment, newest first."""
        self.since = [0] * len(self.recent)
        """Latest frames of each environment in a row that have the same base."""
        self._blank = bytes(self.pool.size)
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
        if missing := self.pool.missing(frames):
            refuse_if_too_large(missing, self.device, f"a pool of more than {len(self.pool)} frames")
            self.pool.reserve(frames)

    def write(self, rows: Tensor, slots: Tensor) -> None:
        self.put(rows.numpy(), slots.numpy())

    def put(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        windows, at = slots.shape[1] // self.spec.envs, slots + self._base.numpy()
        for lane, place in np.argwhere(slots >= 0).tolist():
            self._write(rows[lane, place], at[lane, place], lane * self.spec.envs + place // windows)

    def _write(self, row: NDArray[np.int64], at: int, env: int) -> None:
        """Store one given row of an environment at a position of `flat_rows`; what was there is released."""
        content, recent = row.view(np.uint8), self.recent[env]
        replaced = self._numbers[at].tolist()
        self._numbers[at] = [self._refer(frame, env) for frame in content[self._frames].reshape(-1, self.pool.size)]
        self.pool.release(replaced)
        most = recent_frames(self.spec)
        self.pool.release(number for number, _ in recent[most:])
        del recent[most:]
        for here, there in self._copied:
            self._bytes[at, here] = content[there]

    def _refer(self, frame: NDArray[np.uint8], env: int) -> int:
        """The number of a frame that an environment shows, with one more reference. It is stored, unless it is blank or
        one of the last frames."""
        recent, content = self.recent[env], frame.tobytes()
        if content == self._blank:
            return BLANK
        likely = self.stored.fields["obs"].size - 1  # where it is if stacks shift by one frame per step
        for place in (*range(min(likely, len(recent) - 1), -1, -1), *range(likely + 1, len(recent))):
            if recent[place][1] == content:
                recent.insert(0, recent.pop(place))
                return self.pool.hold(recent[0][0])
        number = self._stored(frame, env)
        recent.insert(0, (self.pool.hold(number), content))
        return number

    def _stored(self, frame: NDArray[np.uint8], env: int) -> int:
        """The number of a new frame of an environment."""
        recent = self.recent[env]
        base = self.pool.base(recent[0][0]) if recent and self.since[env] < GROUP else BLANK
        number = self.pool.add(frame, base)
        self.since[env] = self.since[env] + 1 if self.pool.base(number) == base else 0
        return number

    def observed(self, numbers: NDArray[np.int32]) -> NDArray[Any]:
        """Observations [..., *shape] made of frames [..., k]."""
        field, (*lead, k) = self.layout.fields["obs"], numbers.shape
        frames = self.pool.take(numbers).reshape(*lead, k * self.pool.size)
        return frames.view(field.numpy_dtype).reshape(*lead, *field.shape)

    def _views(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """All fields of stored rows, with the observations assembled."""
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
        self.pool.copy_from(source.pool, np.unique(self._numbers[at.numpy()]))

    def clear(self) -> None:
        self.flat_rows.zero_()
        self.pool.clear()
        self.since = [0] * len(self.recent)
        for recent in self.recent:
            recent.clear()

    def _recent_numbers(self) -> NDArray[np.int32]:
        """int32[L·E, H] of `recent`, filled up with 0."""
        numbers = np.zeros((len(self.recent), recent_frames(self.spec)), np.int32)
        for row, recent in zip(numbers, self.recent, strict=True):
            row[: len(recent)] = [number for number, _ in recent]
        return numbers

    def state(self) -> dict[str, Tensor]:
        """The codes of all frames with their length int32[F] and base int32[F], `recent` int32[L, E, H] and `since`
        int32[L, E]."""
        lead = (self.lanes, self.spec.envs)
        recent, since = self._recent_numbers().reshape(*lead, -1), np.array(self.since, np.int32).reshape(lead)
        return dict(zip(self.own_state, map(torch.from_numpy, (*self.pool.state(), recent, since)), strict=True))

    def fill(self, state: Named) -> None:
        codes, length, base, recent, since = (
            state[name.removeprefix("frames.")].cpu().numpy() for name in self.own_state
        )
        self.pool.fill(codes, length, base, np.concatenate([self._numbers.reshape(-1), recent.reshape(-1)]))
        known = [
            [number for number in numbers if number != BLANK]
            for numbers in recent.reshape(len(self.recent), -1).tolist()
        ]
        self.recent = [[(number, self._content(number)) for number in numbers] for numbers in known]
        self.since = since.reshape(-1).tolist()

    def _content(self, number: int) -> bytes:
        return self.pool.take(np.array([number], np.int32)).tobytes()

    def current(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Earlier versions stored the pixels of the frames."""
        return from_pixels(state, self.spec) if "frames.pixels" in state else state

    def problems(self, rows: Tensor, state: Named) -> Problems:
        yield from row_problems(self.stored, self.spec.action, rows)
        if state:
            yield from state_problems(self.spec, state)
        numbers = self._numbers_in(rows.cpu().contiguous().numpy())
        used = len(state["length"]) if state else self.pool.used
        yield from between("frames", torch.from_numpy(numbers), BLANK, used - 1)
        recent = state["recent"].cpu().numpy() if state else self._recent_numbers()
        named = np.concatenate([numbers.reshape(-1), recent.reshape(-1)])
        if state and not bool(state["length"][torch.from_numpy(np.setdiff1d(named, BLANK))].all()):
            yield "frames: wanted the codes of all frames that are named, got fewer"
        held = self.pool.table[:used]
        if not state and not np.array_equal(self.pool.count[:used], references(named, held[:, BASE], used)):
            yield "frames: wanted counts of the places that name each frame, got others"

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.pool.nbytes + sum(map(len, self.recent)) * self.pool.size


def _bytes_of(layout: Layout, name: str) -> slice:
    field = layout.fields[name]
    return slice(field.begin * field.dtype.itemsize, field.stop)
