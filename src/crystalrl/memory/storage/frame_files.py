"""Frames in files: what is wrong with them, and how to read those of earlier versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.memory.storage.checks import Named, Problems, between, booleans, finite
from crystalrl.memory.storage.frames import BLANK, FramePool, frame_bytes, frame_steps, recent_frames
from crystalrl.memory.storage.header import CheckpointError
from crystalrl.memory.storage.spec import FLOATS, StorageSpec

CHUNK = 256
"""Frames that are decoded at once."""


def state_problems(spec: StorageSpec, state: Named) -> Problems:
    """What is wrong with a stored state of frames, apart from which frames the rows name."""
    lead = (spec.lanes or 1, spec.envs)
    shapes = {
        "codes": (torch.uint8, (state["codes"].numel(),)),
        "length": (torch.int32, (max(state["length"].numel(), 1),)),
        "base": (torch.int32, tuple(state["length"].shape)),
        "recent": (torch.int32, (*lead, recent_frames(spec))),
        "since": (torch.int32, lead),
    }
    for name, (dtype, shape) in shapes.items():
        got = state[name]
        if got.dtype != dtype or tuple(got.shape) != shape:
            yield f"frames.{name}: wanted {dtype} {list(shape)}, got {got.dtype} {list(got.shape)}"
    length, base = state["length"], state["base"]
    yield from between("frames.length", length, 0, frame_bytes(spec))
    yield from between("frames.base", base, BLANK, len(length) - 1)
    yield from between("frames.recent", state["recent"], BLANK, len(length) - 1)
    yield from between("frames.since", state["since"], 0, 2**30)
    yield from between("the blank frame", torch.stack([length[BLANK], base[BLANK]]), 0, 0)
    if int(length.sum(dtype=torch.int64)) != len(state["codes"]):
        yield f"frames.codes: wanted {int(length.sum(dtype=torch.int64))} bytes, got {len(state['codes'])}"
    coded = base[base > BLANK]
    if bool(base[coded.long()].any()) or not bool(length[coded.long()].all()):
        yield "frames.base: wanted frames that are relative to no other one, got others"
    yield from _code_problems(spec, state)


def _code_problems(spec: StorageSpec, state: Named) -> Problems:
    """Codes that are not possible, and frames that `add` would refuse."""
    codes, length, base = (state[name].cpu().numpy() for name in ("codes", "length", "base"))
    sound = backend_for(torch.device("cpu")).frames.sound
    ends = np.cumsum(length, dtype=np.int64)
    for end, size in zip(ends.tolist(), length.tolist(), strict=True):
        if size and not sound(codes[end - size : end], frame_bytes(spec), frame_steps(spec)):
            yield f"frames.codes: wanted codes of {frame_bytes(spec)} bytes, got another one"
    dtype = spec.obs_dtypes[""]
    if dtype not in FLOATS and dtype != torch.bool:
        return
    pool = FramePool(frame_bytes(spec), frame_steps(spec))
    pool.fill(codes, length, base, np.flatnonzero(length).astype(np.int32))
    for numbers in _chunks(len(length)):
        frames = torch.from_numpy(pool.take(numbers)).view(dtype)
        yield from booleans("frames", frames) if dtype == torch.bool else finite("frames", frames)


def _chunks(count: int) -> Iterator[NDArray[np.int32]]:
    return (np.arange(begin, min(begin + CHUNK, count), dtype=np.int32) for begin in range(0, count, CHUNK))


def from_pixels(state: Mapping[str, Tensor], spec: StorageSpec) -> dict[str, Tensor]:
    """A state with codes in place of its `frames.pixels` u8[F, size]. Numbers whose pixels are blank are free; the
    recent frames may name them."""
    pixels, recent, size = state["frames.pixels"], state.get("frames.recent"), frame_bytes(spec)
    if not isinstance(pixels, Tensor) or pixels.dtype != torch.uint8 or pixels.shape[1:] != (size,) or not len(pixels):
        got = f"{pixels.dtype} {list(pixels.shape)}" if isinstance(pixels, Tensor) else type(pixels).__name__
        raise CheckpointError(f"frames.pixels: wanted uint8 [F, {size}], got {got}")
    codes = _codes(pixels.cpu().numpy(), spec)
    length = torch.tensor([len(code) for code in codes], dtype=torch.int32, device="cpu")
    if isinstance(recent, Tensor) and recent.dtype == torch.int32:
        known = recent.cpu().clamp(0, len(codes) - 1).long()
        recent = torch.where((recent.cpu() == known) & (length[known] == 0), BLANK, recent.cpu())
    return {name: value for name, value in state.items() if name not in ("frames.pixels", "frames.recent")} | {
        "frames.codes": torch.from_numpy(np.concatenate(codes)),
        "frames.length": length,
        "frames.base": torch.zeros_like(length),
        "frames.recent": recent,
        "frames.since": torch.zeros(spec.lanes or 1, spec.envs, dtype=torch.int32, device="cpu"),
    }  # type: ignore[return-value]


def _codes(pixels: NDArray[np.uint8], spec: StorageSpec) -> list[NDArray[np.uint8]]:
    """The codes of frames [F, size] relative to the blank one; empty where a frame is blank."""
    blank, out = np.zeros_like(pixels[0]), np.empty_like(pixels[0])
    encode, codes = backend_for(torch.device("cpu")).frames.encode, []
    for frame in pixels:
        length = encode(frame, blank, frame_steps(spec), out, len(frame))
        codes.append(out[:length].copy() if length < len(frame) else frame)
    return codes
