"""Distances, nearest neighbours and statistics over all stored vectors: the reference, on CPU and CUDA.

Vectors are float32[L, N, D]. `pairs` are compiled kernels over all pairs (numba or Triton) that give the same results
as the torch code here, which runs if `pairs` is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from crystalrl.backends.protocols import Pairs

BLOCK = 4096
"""Slots that are summed at once; see `total`."""
CHUNK_BYTES = {"cpu": 1 << 27, "cuda": 1 << 31}
"""Largest distance matrix held at once. It is larger on CUDA, where every chunk costs the same few launches."""


@contextmanager
def full_precision() -> Iterator[None]:
    """A context with matrix products in full float32 on CUDA, whatever precision the process uses for its networks."""
    chosen = torch.get_float32_matmul_precision()
    if chosen == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


def total(values: Tensor, block: int = BLOCK) -> Tensor:
    """Sum float64[L, 1, …] of values [L, N, …]; zeros at the end do not change even the last bit.

    Blocks of a fixed size are summed one after another. So a lane has the same sums alone as next to lanes that use
    more slots. On CUDA, where each block would be a launch, lanes are equal only up to rounding.
    """
    values = values.to(torch.float64)
    if values.shape[1] <= block or values.is_cuda:
        return values.sum(1, keepdim=True)
    blocks = [part.sum(1, keepdim=True) for part in values.split(block, dim=1)]
    return torch.cat(blocks, 1).cumsum(1)[:, -1:]


def moments(vectors: Tensor, mask: Tensor, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [L, 1, D] of the vectors where the mask [L, N] holds; a deviation is 1 where a
    coordinate does not vary."""
    empty = ~mask[..., None]
    count = mask.sum(1)[:, None, None].clamp_min(1)
    mean = total(vectors.masked_fill(empty, 0.0), block) / count
    deviation = (total(((vectors - mean) ** 2).masked_fill(empty, 0.0), block) / count).sqrt()
    deviation = torch.where(deviation > 1e-6 * (1 + mean.abs()), deviation, 1.0)
    return mean.to(torch.float32), deviation.to(torch.float32)


def distances(rows: Tensor, columns: Tensor) -> Tensor:
    """Euclidean distances float32[L, R, C] of vectors [L, R, D] and [L, C, D], exact to float32.

    Equal states must be at distance 0, and ε is itself one of these distances. A matrix product in float32 would put
    equal vectors about 1e-3 apart. On CUDA, where torch's kernel for differences takes ten times as long, the product
    is taken in float64, and distances below the resolution of float32 count as 0.
    """
    if not rows.is_cuda:
        return torch.cdist(rows, columns, compute_mode="donot_use_mm_for_euclid_dist")
    left, right = rows.to(torch.float64), columns.to(torch.float64)
    sizes = left.square().sum(-1)[:, :, None], right.square().sum(-1)[:, None, :]
    squared = torch.baddbmm(sizes[1], left, right.transpose(1, 2), alpha=-2).add_(sizes[0])
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
        """For means over the first few: positions in a flat [L, N], 1 where a neighbour exists, and counts."""
        index, exists = self.index[..., :first], self.exists[..., :first]
        if len(index) > 1:
            index = index + torch.arange(len(index), device=index.device)[:, None, None] * index.shape[1]
        return index.flatten(), exists.to(torch.float32), exists.sum(-1)


def nearest(queries: Tensor, vectors: Tensor, occupied: Tensor, k: int, pairs: Pairs | None = None) -> Near:
    """The k occupied vectors nearest to query n [L, N, D] of each slot n, other than slot n itself."""
    lanes, slots = occupied.shape
    k = min(k, max(slots - 1, 1))
    number = torch.arange(slots, device=vectors.device)
    if pairs is not None:
        index, apart = pairs.nearest(queries, vectors, occupied, number, k)
        return Near(index, torch.isfinite(apart))
    index = torch.zeros(lanes, slots, k, dtype=torch.int64, device=vectors.device)
    exists = torch.zeros(lanes, slots, k, dtype=torch.bool, device=vectors.device)
    for part in chunks(slots, lanes, slots, vectors.device):
        apart = distances(queries[:, part], vectors)
        apart.masked_fill_(~occupied[:, None, :] | (number[part, None] == number), torch.inf)
        found, index[:, part] = apart.topk(k, dim=-1, largest=False)
        exists[:, part] = torch.isfinite(found)
    return Near(index, exists)


def action_distances(rows: Tensor, columns: Tensor, discrete: bool) -> Tensor:
    """float32[L, R, C]: distances of actions [L, R, A] and [L, C, A]; for discrete actions those of their one-hot
    codes."""
    if discrete:
        return (rows != columns.transpose(1, 2)) * 2**0.5
    return distances(rows, columns)


def median_spacing(
    vectors: Tensor,
    occupied: Tensor,
    pairs: Pairs | None = None,
    action: Tensor | None = None,
    discrete: bool = False,
    sample: int = 2048,
) -> Tensor:
    """float32[L, 1]: median distance of an occupied vector to the nearest other one, over at most `sample` of them;
    with action [L, N, A], the distance of the actions is added."""
    lanes, slots = occupied.shape
    rows = torch.arange(0, slots, max(1, -(-slots // sample)), device=vectors.device)
    if pairs is not None:
        closest = pairs.nearest(
            vectors, vectors, occupied, rows, 1, action, discrete=discrete, summed=action is not None
        )[1][..., 0]
    else:
        parts = chunks(len(rows), lanes, slots, vectors.device)
        closest = torch.cat([_closest(vectors, occupied, rows[part], action, discrete) for part in parts], -1)
    return masked_median(closest, occupied[:, rows] & torch.isfinite(closest))


def _closest(vectors: Tensor, occupied: Tensor, rows: Tensor, action: Tensor | None, discrete: bool) -> Tensor:
    """float32[L, R]: distance of the vectors in rows int64[R] to the nearest other occupied one."""
    number = torch.arange(vectors.shape[1], device=vectors.device)
    apart = distances(vectors[:, rows], vectors)
    if action is not None:
        apart = apart + action_distances(action[:, rows], action, discrete)
    return apart.masked_fill_(~occupied[:, None, :] | (rows[:, None] == number), torch.inf).amin(-1)


def masked_median(values: Tensor, mask: Tensor) -> Tensor:
    """[L, 1]: lower median of the values [L, R] where the mask holds; 0 if it holds nowhere."""
    return torch.where(mask, values, torch.nan).nanmedian(-1, keepdim=True).values.nan_to_num(0.0)
