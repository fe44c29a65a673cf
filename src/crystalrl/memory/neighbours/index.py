"""Indices over the stored states: FAISS on CPU, all distances in chunks elsewhere.

`search(queries [L, M, D], …, k)` returns slots int64[L, M, k], nearest first, −1 where there are fewer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends import Backend
from crystalrl.memory.neighbours.all_pairs import needs_near
from crystalrl.memory.neighbours.exact import CHUNK_BYTES
from crystalrl.memory.neighbours.tuning import GraphTuning
from crystalrl.params import CrystalParams


def have_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


def without_index(params: CrystalParams, backend: Backend, tuning: GraphTuning) -> bool:
    """Whether a query compares with all stored states."""
    return tuning.index == "none" and backend.products is not None and needs_near(params)


class IndexState(NamedTuple):
    """The part of one lane's index that does not follow from the vectors. An index without inverted lists has no
    centres."""

    centres: Tensor
    """float32[n, D], one per inverted list."""
    sizes: Tensor
    """int64[n]: slots in each inverted list."""
    ids: Tensor
    """int64[m]: the indexed slots, one inverted list after another."""


def without_lists(size: int, ids: Tensor) -> IndexState:
    """The state of an index without inverted lists over the slots ids int64[m]."""
    centres = torch.zeros(0, size, dtype=torch.float32, device="cpu")
    return IndexState(centres, torch.zeros(0, dtype=torch.int64, device="cpu"), ids)


class Index(Protocol):
    """An index over the stored states of all lanes. A slot that is given again replaces what it held."""

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        """Index the occupied slots bool[L, W] of the lanes bool[L]; vectors(slots int64[L, M]) → float32[L, M, D]."""

    def replace(self, removed: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        """Remove the slots bool[L, W]; add slots int64[L, M], where real bool[L, M], with vectors [L, M, D]."""

    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor:
        """int64[L, M, k] for queries [L, M, D] where real bool[L, M]."""

    def state(self, lane: int) -> IndexState: ...
    def restore(self, lane: int, state: IndexState, vectors: Callable[[Tensor], Tensor]) -> bool:
        """Whether the index of a lane is now as it was when `state` was taken; otherwise it must be built."""

    @property
    def nbytes(self) -> int: ...


class Brute:
    """All distances, by a matrix product. It keeps the vectors [L, N, D].

    A top-k over 10⁶ values is expensive, the minimum of every 64 is not. The k nearest lie in the k groups of 64 slots
    with the smallest minima. So groups are picked first, then the nearest of their members, which is exact.
    """

    group: ClassVar[int] = 64
    """Adjacent slots per group; in the first pass its nearest slot represents the group."""

    def __init__(self, lanes: int, slots: int, size: int, device: torch.device) -> None:
        wide, self.spare = slots // self.group * self.group + self.group, slots
        self.vectors = torch.zeros(lanes, wide, size, dtype=torch.float32, device=device)
        self.length = torch.full((lanes, wide), torch.inf, dtype=torch.float32, device=device)
        """Squared norms; infinite where nothing is stored."""

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        self.length.masked_fill_(lanes[:, None], torch.inf)
        every = torch.arange(occupied.shape[1], device=occupied.device).expand_as(occupied)
        self._put(every, occupied & lanes[:, None], vectors(every))

    def replace(self, removed: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        self.length[:, : removed.shape[1]].masked_fill_(removed, torch.inf)
        self._put(slots, real, vectors)

    def _put(self, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        """Entries that are not real are written to a spare slot: leaving them out would need a synchronisation."""
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
            nearness, slot = self._least(apart, k)
            found[:, part] = torch.where(torch.isfinite(nearness), slot, -1)
        return found

    def _least(self, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k smallest of values [L, R, N], N a multiple of `group`, and their positions; smallest first."""
        groups = values.unflatten(-1, (-1, self.group))
        if groups.shape[-2] <= 2 * k:
            return values.topk(k, dim=-1, largest=False)
        best = groups.amin(-1).topk(k, dim=-1, largest=False, sorted=False).indices
        members = groups.gather(2, best[..., None].expand(*best.shape, self.group)).flatten(2)
        least, at = members.topk(k, dim=-1, largest=False)
        return least, best.gather(2, at // self.group) * self.group + at % self.group

    def state(self, lane: int) -> IndexState:
        return without_lists(self.vectors.shape[-1], torch.isfinite(self.length[lane]).nonzero()[:, 0].cpu())

    def restore(self, lane: int, state: IndexState, vectors: Callable[[Tensor], Tensor]) -> bool:
        slots = state.ids.to(self.length.device)
        mine = vectors(slots.expand(len(self.length), -1))[lane]
        self.length[lane] = torch.inf
        self.vectors[lane, slots] = mine
        self.length[lane, slots] = mine.square().sum(-1)
        return True

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self.length.nbytes


class Ivf:
    """FAISS: inverted lists of vectors in half precision, one index per lane, on CPU. Ids are slots."""

    lists_per_root: ClassVar[float] = 4.0
    """An index of n vectors has this many times √n inverted lists."""
    trained_on: ClassVar[int] = 64
    """Training vectors per inverted list."""
    min_probes: ClassVar[int] = 8
    """Minimum number of inverted lists that a query searches; more if they are short."""
    examined: ClassVar[int] = 2048
    """Approximate number of vectors that a query is compared with."""
    pad_to: ClassVar[int] = 8
    """Vectors are padded with zeros to a multiple of this. FAISS compares this many coordinates at once, and the
    remainder one by one, which takes several times as long."""

    def __init__(self, lanes: int, size: int) -> None:
        self.lanes, self.size, self.wide = lanes, size, -(-size // self.pad_to) * self.pad_to
        self.indices: list[Any] = [None] * lanes

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        for lane in lanes.nonzero()[:, 0].tolist():
            slots = occupied[lane].nonzero()[:, 0]
            lists = int(min(max(self.lists_per_root * len(slots) ** 0.5, 1), max(len(slots) // self.trained_on, 1)))
            index = self._empty(lists)
            step = max(1, len(slots) // (lists * self.trained_on))
            index.train(self._rows(lane, slots[::step], vectors))
            for part in slots.split(1 << 17):
                index.add_with_ids(self._rows(lane, part, vectors), part.numpy())
            self.indices[lane] = index

    def _empty(self, lists: int, centres: Any = None) -> Any:
        """An index without vectors; trained if centres float32[lists, padded D] are given."""
        import faiss

        coarse = faiss.IndexFlatL2(self.wide)
        if centres is not None:
            coarse.add(centres)
        kind = faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexIVFScalarQuantizer(coarse, self.wide, lists, kind, faiss.METRIC_L2, False)
        index.cp.niter, index.cp.min_points_per_centroid = 10, 1
        if centres is not None:
            index.train(centres)  # keeps the given centres
        return index

    def _rows(self, lane: int, slots: Tensor, vectors: Callable[[Tensor], Tensor]) -> Any:
        return self._padded(vectors(slots.expand(self.lanes, -1))[lane])

    def _padded(self, vectors: Tensor) -> Any:
        return torch.nn.functional.pad(vectors, (0, self.wide - self.size)).contiguous().numpy()

    def replace(self, removed: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        for lane, index in enumerate(self.indices):
            if index is None or not (real[lane].any() or removed[lane].any()):
                continue
            index.remove_ids(removed[lane].nonzero()[:, 0].numpy())
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
        index.nprobe = max(self.min_probes, self.examined * index.nlist // max(index.ntotal, 1))
        index.max_codes = 2 * self.examined
        return index.search(self._padded(queries), k)[1]

    def state(self, lane: int) -> IndexState:
        import faiss

        index = self.indices[lane]
        if index is None:
            return without_lists(self.size, torch.zeros(0, dtype=torch.int64, device="cpu"))
        sizes = [index.invlists.list_size(number) for number in range(index.nlist)]
        parts = [faiss.rev_swig_ptr(index.invlists.get_ids(n), size) for n, size in enumerate(sizes) if size]
        ids = np.concatenate([*parts, np.zeros(0, np.int64)])
        centres = index.quantizer.reconstruct_n(0, index.nlist)
        lengths = torch.tensor(sizes, dtype=torch.int64, device="cpu")
        return IndexState(torch.from_numpy(centres[:, : self.size].copy()), lengths, torch.from_numpy(ids))

    def restore(self, lane: int, state: IndexState, vectors: Callable[[Tensor], Tensor]) -> bool:
        from faiss import swig_ptr

        self.indices[lane] = None
        if not len(state.centres):
            return False
        index = self._empty(len(state.centres), self._padded(state.centres))
        lists = torch.arange(len(state.sizes), device="cpu").repeat_interleave(state.sizes)
        for ids, numbers in zip(state.ids.split(1 << 17), lists.split(1 << 17), strict=True):
            rows, slots, at = self._rows(lane, ids, vectors), ids.contiguous().numpy(), numbers.contiguous().numpy()
            index.add_core(len(slots), swig_ptr(rows), swig_ptr(slots), swig_ptr(at))
        self.indices[lane] = index
        return True

    @property
    def nbytes(self) -> int:
        per_vector = 2 * self.wide + 8
        return sum(
            index.ntotal * per_vector + index.nlist * 4 * self.wide for index in self.indices if index is not None
        )


def empty_index(kind: str, sizes: tuple[int, int, int], device: torch.device) -> Index:
    """The index of a kind of `GraphTuning`; sizes: lanes, slots, numbers of a vector."""
    lanes, slots, size = sizes
    if kind == "ivf" or (kind != "brute" and device.type == "cpu"):
        return Ivf(lanes, size)
    return Brute(lanes, slots, size, device)
