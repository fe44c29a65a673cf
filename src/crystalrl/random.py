"""Counter-based random numbers: a hash of (lane seed, stream, tick, element).

A number depends only on these four integers, so a lane draws the same numbers alone or among others, the whole state
is one integer per stream, and drawing inside a captured CUDA graph is safe because the tick is on the device.
The hash is SplitMix64: its output function applied to a Weyl sequence whose start is the hashed (seed, stream, tick).

`torch` has no unsigned 64-bit shifts, so right shifts of int64 are masked. The CPU kernels (`crystalrl.backends`) also
implement `Streams.uniform`; a test asserts that the results agree bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.backends.splitmix import GOLDEN, MIX_1, MIX_2, mix_int, signed

WHOLE = 16
"""Lanes are padded to a multiple of this many float64 values, so that no SIMD remainder is left on CPU."""


class Stream(IntEnum):
    """Independent sequences; the number is part of every saved file, so never reorder them."""

    DRAW = 0
    PLACE = 1
    KEY = 2
    NOISE = 3
    NEIGHBOURS = 4
    EXPLORE = 5
    ENVIRONMENT = 6
    INITIALISE = 7
    EVALUATE = 8


def _shift_right(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: Tensor) -> Tensor:
    """The SplitMix64 output function on int64, as the two's complement of uint64."""
    x = (x ^ _shift_right(x, 30)) * signed(MIX_1)
    x = (x ^ _shift_right(x, 27)) * signed(MIX_2)
    return x ^ _shift_right(x, 31)


def lane_key(seed: int, stream: int) -> int:
    """Unsigned 64-bit key of a lane's stream."""
    return mix_int(mix_int(seed + GOLDEN) + (stream + 1) * GOLDEN)


def start_of(key: Tensor, tick: Tensor) -> Tensor:
    """Start of the sequence that a stream with `key` uses at `tick`. Shapes broadcast."""
    return mix(key + (tick + 1) * signed(GOLDEN))


def element_bits(start: Tensor, element: Tensor) -> Tensor:
    """64 random bits for each element of the sequence beginning at `start`. Shapes broadcast."""
    return mix(start + (element + 1) * signed(GOLDEN))


def to_unit(bits: Tensor) -> Tensor:
    """Random bits → float64 in [0, 1), a multiple of 2⁻⁵³."""
    return _shift_right(bits, 11).to(torch.float64) * 2.0**-53


def normal_from_bits(bits: Tensor, more: Tensor) -> Tensor:
    """Two sets of random bits → float64 standard normals (Box–Muller, the cosine half)."""
    radius = torch.sqrt(-2.0 * torch.log1p(-to_unit(bits)))
    return radius * torch.cos((2.0 * math.pi) * to_unit(more))


def element_normals(start: Tensor, size: int) -> Tensor:
    """float64[L, size] standard normals of the sequences that begin at start int64[L].

    On CPU, logarithms may round differently in SIMD vectors and in the remainder, so lanes are padded to `WHOLE`.
    """
    element = 2 * torch.arange(-(-size // WHOLE) * WHOLE, device=start.device)
    normal = normal_from_bits(element_bits(start[:, None], element), element_bits(start[:, None], element + 1))
    return normal[:, :size]


def lane_seeds(seed: int | Sequence[int], lanes: int) -> list[int]:
    """One seed per lane: the given ones, or seed, seed + 1, … for a single integer."""
    seeds = [int(seed) + i for i in range(lanes)] if isinstance(seed, int | np.integer) else [int(s) for s in seed]
    if len(seeds) != lanes:
        raise ValueError(f"seed: wanted one integer, or {lanes} integers (one per lane), got {len(seeds)}")
    if any(not 0 <= s < 1 << 63 for s in seeds):
        raise ValueError(f"seed: wanted integers ≥ 0 and < 2⁶³, got {seeds}")
    return seeds


class Streams:
    """Random numbers for several lanes. Invariant: the state is one tick per stream and one seed per lane."""

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.ticks = torch.zeros(len(Stream), dtype=torch.int64, device=self.device)
        self._loops = backend_for(self.device).streams
        self._ticks: NDArray[np.int64] = (
            self.ticks.numpy() if self.device.type == "cpu" else np.empty(0, dtype=np.int64)
        )
        self._unsigned_ticks = self._ticks.view(np.uint64)
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64, device="cpu")
        self.refresh()

    def refresh(self) -> None:
        """Recompute the keys from `seeds`."""
        keys = [[signed(lane_key(seed, stream)) for seed in self.seeds.tolist()] for stream in Stream]
        self.keys = torch.tensor(keys, dtype=torch.int64, device=self.device)
        self._unsigned = self.keys.cpu().numpy().view(np.uint64)

    def next_start(self, stream: int) -> Tensor:
        """int64[L] starts for `element_bits`; advances the stream by one tick."""
        start = start_of(self.keys[stream], self.ticks[stream])
        self.ticks[stream] += 1
        return start

    def starts(self, stream: Stream, tick: Tensor) -> Tensor:
        """int64[L] starts for `element_bits` at each lane's own tick int64[L]; does not advance the stream."""
        return start_of(self.keys[stream], tick)

    def advance(self, stream: int) -> tuple[NDArray[np.uint64], np.uint64]:
        """Keys of all lanes and the tick of a stream, for the CPU kernels; advances by one tick."""
        tick: np.uint64 = self._unsigned_ticks[stream]
        self._ticks[stream] += 1
        return self._unsigned[stream], tick

    def uniform(self, stream: int, size: int) -> Tensor:
        """float64[L, size] in [0, 1); one tick."""
        if self._loops is not None:
            out = np.empty((len(self.seeds), size))
            self._loops.fill_uniform(*self.advance(stream), out)
            return torch.from_numpy(out)
        element = torch.arange(size, device=self.device)
        return to_unit(element_bits(self.next_start(stream)[:, None], element))

    def integers(self, stream: Stream, size: int, count: Tensor) -> Tensor:
        """int64[L, size] uniform in 0 … count − 1, count int64[L]; one tick."""
        if self._loops is not None:
            out = np.empty((len(self.seeds), size), np.int64)
            self._loops.fill_integers(*self.advance(stream), count.numpy(), out)
            return torch.from_numpy(out)
        return (self.uniform(stream, size) * count[:, None]).to(torch.int64)

    def normal(self, stream: Stream, size: int) -> Tensor:
        """float64[L, size] standard normals; one tick."""
        return element_normals(self.next_start(stream), size)

    def at(self, stream: Stream, number: Tensor) -> Tensor:
        """float64 like `number` [L, …]: the uniform of event `number` of each lane; does not advance the stream."""
        key = self.keys[stream].reshape(-1, *([1] * (number.dim() - 1)))
        return to_unit(element_bits(key, number))

    def one_at(self, stream: Stream, number: int) -> float:
        """`at` for one event of the first lane, on the host."""
        return (mix_int(int(self._unsigned[stream][0]) + (number + 1) * GOLDEN) >> 11) * 2.0**-53

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state; call `refresh` after writing them."""
        return {"ticks": self.ticks, "seeds": self.seeds}


def standard_gamma(shape: Tensor, start: Tensor, element: Tensor) -> Tensor:
    """float64 Gamma(shape, 1) variates, each a function of (start, element) only; shapes broadcast; shape > 0.

    Marsaglia and Tsang's method, with the usual boost for shapes below one. Attempt k of an element uses its own bits,
    so the result does not depend on rejections of other elements.
    """
    shape, start, element = torch.broadcast_tensors(shape.to(torch.float64), start, element)
    boosted = torch.where(shape < 1, shape + 1, shape)
    result = torch.empty_like(boosted)
    flat, sub, base = boosted.reshape(-1), start.reshape(-1), element.reshape(-1)
    todo = torch.arange(flat.numel(), device=flat.device)
    out = result.view(-1)
    attempt = 0
    while todo.numel():
        value, accepted = _gamma_try(flat[todo], mix(sub[todo] + signed(mix_int(attempt + 1))), base[todo])
        out[todo[accepted]] = value[accepted]
        todo = todo[~accepted]
        attempt += 1
    lift = to_unit(element_bits(mix(start ^ signed(GOLDEN)), element))
    power = torch.exp(torch.log1p(-lift) / shape)
    return torch.where(shape < 1, result * power, result)


def _gamma_try(shape: Tensor, start: Tensor, element: Tensor) -> tuple[Tensor, Tensor]:
    third = shape - 1.0 / 3.0
    normal = normal_from_bits(element_bits(start, 3 * element), element_bits(start, 3 * element + 1))
    cube = (1.0 + normal / torch.sqrt(9.0 * third)) ** 3
    uniform = 1.0 - to_unit(element_bits(start, 3 * element + 2))
    positive = cube > 0
    safe = torch.where(positive, cube, torch.ones_like(cube))
    accepted = positive & (torch.log(uniform) < 0.5 * normal**2 + third * (1.0 - safe + torch.log(safe)))
    return third * cube, accepted


def beta_variates(p: Tensor, q: Tensor, start: Tensor, element: Tensor) -> Tensor:
    """float64 Beta(p, q) variates, each a function of (start, element) only; p, q > 0.

    Tiny shapes can make both gammas underflow to zero: the variate is then 1 with probability p / (p + q), else 0.
    """
    first = standard_gamma(p, start, 2 * element)
    second = standard_gamma(q, start, 2 * element + 1)
    total = first + second
    end = (to_unit(element_bits(mix(start + 1), element)) * (p + q) < p).to(torch.float64)
    return torch.where(total > 0, first / torch.where(total > 0, total, torch.ones_like(total)), end)
