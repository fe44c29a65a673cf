"""Who is nearest among the stored states: FAISS on CPU, all distances in chunks elsewhere.

Both answer `search(queries [L, M, D], k)` with slots int64[L, M, k], nearest first, −1 where there are fewer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from crystalrl.memory.neighbours.exact import CHUNK_BYTES

GROUP = 64
"""Neighbouring slots of which the nearest stands for all at first."""
LISTS = 4.0
"""Inverted lists of an index of n vectors: so many times √n."""
TRAINED_ON = 64
"""Vectors per inverted list from which its centre is found."""
PROBES = 8
"""Inverted lists looked into by a query, at least: the more the shorter they are."""
LOOKED_AT = 2048
"""Vectors looked at by a query."""
TOGETHER = 8
"""Coordinates that FAISS compares at once. Vectors are padded with zeros to a multiple; otherwise it takes them one by
one, and several times as long."""


def have_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


class Order(NamedTuple):
    """What an index of one lane cannot compute anew from the vectors: centres float32[n, D], int64[n] slots in the list
    of each, and these slots int64[m], list by list. An index without lists has no centres."""

    centres: Tensor
    sizes: Tensor
    ids: Tensor


class Search(Protocol):
    """An index over the stored states of all lanes. Slots that are given anew replace what they held."""

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None: ...
    def replace(self, gone: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None: ...
    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor: ...
    def order(self, lane: int) -> Order: ...
    def restore(self, lane: int, order: Order, vectors: Callable[[Tensor], Tensor]) -> bool:
        """Whether the index of a lane is now as it was when `order` was taken; else it has to be built."""

    @property
    def nbytes(self) -> int: ...


class Brute:
    """All distances, by a product of matrices. It keeps the vectors [L, N, D] and which of them count.

    To pick the nearest k of a million numbers is dear, to find the least of every 64 is not. The nearest k lie in the k
    groups of 64 whose least are least; so groups are picked first, and the nearest among their members. It is exact.
    """

    def __init__(self, lanes: int, slots: int, size: int, device: torch.device) -> None:
        wide, self.spare = slots // GROUP * GROUP + GROUP, slots
        self.vectors = torch.zeros(lanes, wide, size, device=device)
        self.length = torch.full((lanes, wide), torch.inf, device=device)
        """Squared lengths; infinite where nothing is stored."""

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        self.length.masked_fill_(lanes[:, None], torch.inf)
        every = torch.arange(occupied.shape[1], device=occupied.device).expand_as(occupied)
        self._put(every, occupied & lanes[:, None], vectors(every))

    def replace(self, gone: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        self.length[:, : gone.shape[1]].masked_fill_(gone, torch.inf)
        self._put(slots, real, vectors)

    def _put(self, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        """What is not real goes to a spare place: to leave it out would mean to wait for the device."""
        at = torch.where(real, slots, self.spare)
        self.vectors.scatter_(1, at[..., None].expand_as(vectors), vectors)
        self.length.scatter_(1, at, torch.where(real, vectors.square().sum(-1), torch.inf))

    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor:
        lanes, count, _ = queries.shape
        k = min(k, self.length.shape[1])
        found = torch.full((lanes, count, k), -1, dtype=torch.int64, device=queries.device)
        width = max(1, CHUNK_BYTES.get(queries.device.type, 1 << 27) // (4 * lanes * self.length.shape[1]))
        for part in (slice(start, start + width) for start in range(0, count, width)):
            apart = torch.baddbmm(self.length[:, None], queries[:, part], self.vectors.transpose(1, 2), alpha=-2)
            nearness, slot = _least(apart, k)
            found[:, part] = torch.where(torch.isfinite(nearness), slot, -1)
        return found

    def order(self, lane: int) -> Order:
        centres, sizes = torch.zeros(0, self.vectors.shape[-1]), torch.zeros(0, dtype=torch.int64)
        return Order(centres, sizes, torch.isfinite(self.length[lane]).nonzero()[:, 0].cpu())

    def restore(self, lane: int, order: Order, vectors: Callable[[Tensor], Tensor]) -> bool:
        slots = order.ids.to(self.length.device)
        mine = vectors(slots.expand(len(self.length), -1))[lane]
        self.length[lane] = torch.inf
        self.vectors[lane, slots] = mine
        self.length[lane, slots] = mine.square().sum(-1)
        return True

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self.length.nbytes


def _least(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The least k of values [L, R, N], N a multiple of GROUP, and where they stand; least first."""
    groups = values.unflatten(-1, (-1, GROUP))
    if groups.shape[-2] <= 2 * k:
        return values.topk(k, dim=-1, largest=False)
    best = groups.amin(-1).topk(k, dim=-1, largest=False, sorted=False).indices
    members = groups.gather(2, best[..., None].expand(*best.shape, GROUP)).flatten(2)
    least, at = members.topk(k, dim=-1, largest=False)
    return least, best.gather(2, at // GROUP) * GROUP + at % GROUP


class Ivf:
    """FAISS: inverted lists of vectors in half precision, one index per lane, on CPU. Ids are slots."""

    def __init__(self, lanes: int, size: int) -> None:
        self.lanes, self.size, self.wide = lanes, size, -(-size // TOGETHER) * TOGETHER
        self.indices: list[Any] = [None] * lanes

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        for lane in lanes.nonzero()[:, 0].tolist():
            slots = occupied[lane].nonzero()[:, 0]
            lists = int(min(max(LISTS * len(slots) ** 0.5, 1), max(len(slots) // TRAINED_ON, 1)))
            index = self._empty(lists)
            step = max(1, len(slots) // (lists * TRAINED_ON))
            index.train(self._rows(lane, slots[::step], vectors))
            for part in slots.split(1 << 17):
                index.add_with_ids(self._rows(lane, part, vectors), part.numpy())
            self.indices[lane] = index

    def _empty(self, lists: int, centres: Any = None) -> Any:
        """An index without vectors; where centres float32[lists, padded D] are given it is trained."""
        import faiss

        coarse = faiss.IndexFlatL2(self.wide)
        if centres is not None:
            coarse.add(centres)
        kind = faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexIVFScalarQuantizer(coarse, self.wide, lists, kind, faiss.METRIC_L2, False)
        index.cp.niter, index.cp.min_points_per_centroid = 10, 1
        if centres is not None:
            index.train(centres)  # it takes the centres as they are
        return index

    def _rows(self, lane: int, slots: Tensor, vectors: Callable[[Tensor], Tensor]) -> Any:
        return self._padded(vectors(slots.expand(self.lanes, -1))[lane])

    def _padded(self, vectors: Tensor) -> Any:
        return torch.nn.functional.pad(vectors, (0, self.wide - self.size)).contiguous().numpy()

    def replace(self, gone: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        for lane, index in enumerate(self.indices):
            if index is None or not (real[lane].any() or gone[lane].any()):
                continue
            index.remove_ids(gone[lane].nonzero()[:, 0].numpy())
            index.add_with_ids(self._padded(vectors[lane, real[lane]]), slots[lane, real[lane]].numpy())

    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor:
        found = np.full((*real.shape, k), -1, np.int64)
        for lane in range(self.lanes):
            mine = real[lane].numpy()
            if mine.any():
                found[lane, mine] = self.nearest(lane, queries[lane, real[lane]], k)
        return torch.from_numpy(found)

    def nearest(self, lane: int, queries: Tensor, k: int) -> Any:
        """int64[M, k] for queries [M, D] of one lane."""
        if not len(queries):
            return np.zeros((0, k), np.int64)
        index = self.indices[lane]
        index.nprobe = max(PROBES, LOOKED_AT * index.nlist // max(index.ntotal, 1))
        return index.search(self._padded(queries), k)[1]

    def order(self, lane: int) -> Order:
        import faiss

        index = self.indices[lane]
        if index is None:
            empty = torch.zeros(0, dtype=torch.int64)
            return Order(torch.zeros(0, self.size), empty, empty)
        sizes = [index.invlists.list_size(number) for number in range(index.nlist)]
        parts = [faiss.rev_swig_ptr(index.invlists.get_ids(n), size) for n, size in enumerate(sizes) if size]
        ids = np.concatenate([*parts, np.zeros(0, np.int64)])
        centres = index.quantizer.reconstruct_n(0, index.nlist)
        return Order(torch.from_numpy(centres[:, : self.size].copy()), torch.tensor(sizes), torch.from_numpy(ids))

    def restore(self, lane: int, order: Order, vectors: Callable[[Tensor], Tensor]) -> bool:
        from faiss import swig_ptr

        self.indices[lane] = None
        if not len(order.centres):
            return False
        index = self._empty(len(order.centres), self._padded(order.centres))
        lists = torch.arange(len(order.sizes)).repeat_interleave(order.sizes)
        for ids, homes in zip(order.ids.split(1 << 17), lists.split(1 << 17), strict=True):
            rows, slots, at = self._rows(lane, ids, vectors), ids.contiguous().numpy(), homes.contiguous().numpy()
            index.add_core(len(slots), swig_ptr(rows), swig_ptr(slots), swig_ptr(at))
        self.indices[lane] = index
        return True

    @property
    def nbytes(self) -> int:
        per_vector = 2 * self.wide + 8
        return sum(
            index.ntotal * per_vector + index.nlist * 4 * self.wide for index in self.indices if index is not None
        )
