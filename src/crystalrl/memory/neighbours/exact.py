"""Who is near whom: exact neighbours in torch, in chunks, on CPU or GPU.

States are compared as vectors [L, N, D]: flattened, standardised per lane, and above 64 dimensions projected to 32
random directions (or mapped by the user's own features).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.random import Stream, Streams, element_bits, normal_from_bits
from crystalrl.types import Observation

MOST_DIMENSIONS = 64
PROJECTED = 32
BLOCK = 4096
"""Slots that are added up at once; see `total`."""
CHUNK_BYTES = {"cpu": 1 << 27, "cuda": 1 << 31}
"""Largest distance matrix held at once; on CUDA larger ones, because there every chunk costs the same few launches."""


@contextmanager
def in_full() -> Iterator[None]:
    """Matrix products on CUDA in full float32, whatever the process has chosen for its networks: what is near must not
    depend on it."""
    chosen = torch.get_float32_matmul_precision()
    if chosen == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


def flatten(obs: Observation) -> Tensor:
    """float32[L, N, D] of an observation [L, N, …] or a dict of them."""
    parts = list(obs.values()) if isinstance(obs, Mapping) else [obs]
    return torch.cat([part.reshape(*part.shape[:2], -1).to(torch.float32) for part in parts], dim=-1)


def project(vectors: Tensor, streams: Streams) -> Tensor:
    """float32[L, N, 32] along fixed random directions of each lane, distances kept on average; as is up to 64."""
    size = vectors.shape[-1]
    if size <= MOST_DIMENSIONS:
        return vectors
    element = torch.arange(size * PROJECTED, device=vectors.device)
    key = streams.keys[Stream.NEIGHBOURS].to(vectors.device)[:, None]
    normal = normal_from_bits(element_bits(key, 2 * element), element_bits(key, 2 * element + 1))
    directions = normal.view(-1, size, PROJECTED).to(torch.float32) / PROJECTED**0.5
    return torch.bmm(vectors, directions)


def total(values: Tensor) -> Tensor:
    """Sum [L, 1, …] of values [L, N, …], float64; zeros at the end change nothing, not even the last bit.

    So a lane's sums are the same alone and among lanes that reach further: blocks of a fixed size, one after another.
    (Not on CUDA, where lanes are equal but for rounding, and every block would be a launch.)
    """
    values = values.to(torch.float64)
    if values.shape[1] <= BLOCK or values.is_cuda:
        return values.sum(1, keepdim=True)
    blocks = [block.sum(1, keepdim=True) for block in values.split(BLOCK, dim=1)]
    return torch.cat(blocks, 1).cumsum(1)[:, -1:]


def moments(vectors: Tensor, occupied: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [L, 1, D] over the occupied; 1 where a coordinate does not vary."""
    empty = ~occupied[..., None]
    count = occupied.sum(1)[:, None, None].clamp_min(1)
    mean = total(vectors.masked_fill(empty, 0.0)) / count
    deviation = (total(((vectors - mean) ** 2).masked_fill(empty, 0.0)) / count).sqrt()
    deviation = torch.where(deviation > 1e-6 * (1 + mean.abs()), deviation, 1.0)
    return mean.to(torch.float32), deviation.to(torch.float32)


def distances(rows: Tensor, columns: Tensor) -> Tensor:
    """Euclidean distances float32[L, R, C] of vectors [L, R, D] and [L, C, D], exact to float32.

    Equal states must be at distance 0, and ε is itself one of these distances; the fast way, a product of matrices in
    float32, puts equal vectors some 1e-3 apart. On CUDA, where torch's kernel for differences takes ten times as long,
    the product is taken in float64, and what is closer than float32 can tell counts as equal.
    """
    if not rows.is_cuda:
        return torch.cdist(rows, columns, compute_mode="donot_use_mm_for_euclid_dist")
    mine, theirs = rows.to(torch.float64), columns.to(torch.float64)
    sizes = mine.square().sum(-1)[:, :, None], theirs.square().sum(-1)[:, None, :]
    squared = torch.baddbmm(sizes[1], mine, theirs.transpose(1, 2), alpha=-2).add_(sizes[0])
    return squared.to(torch.float32).masked_fill_(squared <= 1e-14 * sizes[0], 0.0).sqrt_()


def chunks(rows: int, lanes: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Slices of the rows whose distance matrices fit into CHUNK_BYTES."""
    width = max(1, CHUNK_BYTES.get(device.type, 1 << 27) // max(1, 4 * lanes * columns))
    for start in range(0, rows, width):
        yield slice(start, min(start + width, rows))


@dataclass(frozen=True)
class Near:
    """The nearest stored states of each successor state: slots [L, N, K], and which of them exist, bool."""

    index: Tensor
    exists: Tensor
    _first: dict[int | None, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, repr=False, compare=False)

    def mean(self, values: Tensor, default: Tensor, first: int | None = None) -> Tensor:
        """Mean of values [L, N] over the (first few) neighbours; the default [L, 1] where there is none."""
        if first not in self._first:
            self._first[first] = self._prepared(first)
        index, exists, count = self._first[first]
        picked = values.flatten().index_select(0, index).view(exists.shape) * exists
        return torch.where(count > 0, picked.sum(-1) / count.clamp_min(1), default)

    def _prepared(self, first: int | None) -> tuple[Tensor, Tensor, Tensor]:
        """What every mean over the first few needs: positions in a flat [L, N], 1 where there is one, counts."""
        index, exists = self.index[..., :first], self.exists[..., :first]
        if len(index) > 1:
            index = index + torch.arange(len(index), device=index.device)[:, None, None] * index.shape[1]
        return index.flatten(), exists.to(torch.float32), exists.sum(-1)


def nearest(queries: Tensor, vectors: Tensor, occupied: Tensor, k: int) -> Near:
    """The k occupied vectors nearest to query n [L, N, D] of each slot n, other than slot n itself."""
    lanes, slots = occupied.shape
    k = min(k, max(slots - 1, 1))
    index = torch.zeros(lanes, slots, k, dtype=torch.int64, device=vectors.device)
    exists = torch.zeros(lanes, slots, k, dtype=torch.bool, device=vectors.device)
    number, pairs = torch.arange(slots, device=vectors.device), backend_for(vectors.device).pairs
    if pairs is not None:
        index, apart = pairs.nearest(queries, vectors, occupied, number, k)
        return Near(index, torch.isfinite(apart))
    for part in chunks(slots, lanes, slots, vectors.device):
        apart = distances(queries[:, part], vectors)
        apart.masked_fill_(~occupied[:, None, :] | (number[part, None] == number), torch.inf)
        found, index[:, part] = apart.topk(k, dim=-1, largest=False)
        exists[:, part] = torch.isfinite(found)
    return Near(index, exists)


def median_spacing(vectors: Tensor, occupied: Tensor, most: int = 2048) -> Tensor:
    """float32[L, 1]: median distance of an occupied vector to its nearest other; from at most `most` of them."""
    lanes, slots = occupied.shape
    rows = torch.arange(0, slots, max(1, -(-slots // most)), device=vectors.device)
    number = torch.arange(slots, device=vectors.device)
    spacing = torch.full((lanes, len(rows)), torch.nan, device=vectors.device)
    pairs = backend_for(vectors.device).pairs
    if pairs is not None:
        closest = pairs.nearest(vectors, vectors, occupied, rows, 1)[1][..., 0]
        spacing = torch.where(occupied[:, rows] & torch.isfinite(closest), closest, torch.nan)
        return spacing.nanmedian(-1, keepdim=True).values.nan_to_num(0.0)
    for part in chunks(len(rows), lanes, slots, vectors.device):
        apart = distances(vectors[:, rows[part]], vectors)
        apart.masked_fill_(~occupied[:, None, :] | (rows[part, None] == number), torch.inf)
        closest = apart.amin(-1)
        spacing[:, part] = torch.where(occupied[:, rows[part]] & torch.isfinite(closest), closest, torch.nan)
    return spacing.nanmedian(-1, keepdim=True).values.nan_to_num(0.0)
