"""Who is nearest among the stored states: FAISS on CPU, all distances in chunks elsewhere.

Both answer `search(queries [L, M, D], k)` with slots int64[L, M, k], nearest first, −1 where there are fewer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from crystalrl.memory.neighbours import CHUNK_BYTES

LISTS = 4.0
"""Inverted lists of an index of n vectors: so many times √n."""
TRAINED_ON = 64
"""Vectors per inverted list from which its centre is found."""
PROBES = 8
"""Inverted lists looked into by a query."""


def have_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


class Search(Protocol):
    """An index over the stored states of all lanes. Slots that are given anew replace what they held."""

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None: ...
    def replace(self, gone: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None: ...
    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor: ...
    @property
    def nbytes(self) -> int: ...


class Brute:
    """All distances, by a product of matrices. It keeps the vectors [L, N, D] and which of them count."""

    def __init__(self, lanes: int, slots: int, size: int, device: torch.device) -> None:
        self.vectors = torch.zeros(lanes, slots, size, device=device)
        self.length = torch.full((lanes, slots), torch.inf, device=device)
        """Squared lengths; infinite where nothing is stored."""

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        self.length.masked_fill_(lanes[:, None], torch.inf)
        every = torch.arange(occupied.shape[1], device=occupied.device).expand_as(occupied)
        self._put(every, occupied & lanes[:, None], vectors(every))

    def replace(self, gone: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        self.length[:, : gone.shape[1]].masked_fill_(gone, torch.inf)
        self._put(slots, real, vectors)

    def _put(self, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        lane = real.nonzero()[:, 0]
        self.vectors[lane, slots[real]] = vectors[real]
        self.length[lane, slots[real]] = vectors[real].square().sum(-1)

    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor:
        lanes, count, _ = queries.shape
        k = min(k, self.length.shape[1])
        found = torch.full((lanes, count, k), -1, dtype=torch.int64, device=queries.device)
        width = max(1, CHUNK_BYTES.get(queries.device.type, 1 << 27) // (4 * lanes * self.length.shape[1]))
        for part in (slice(start, start + width) for start in range(0, count, width)):
            apart = torch.baddbmm(self.length[:, None], queries[:, part], self.vectors.transpose(1, 2), alpha=-2)
            nearness, slot = apart.topk(k, dim=-1, largest=False)
            found[:, part] = torch.where(torch.isfinite(nearness), slot, -1)
        return found

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self.length.nbytes


class Ivf:
    """FAISS: inverted lists of vectors in half precision, one index per lane, on CPU. Ids are slots."""

    def __init__(self, lanes: int, size: int) -> None:
        self.lanes, self.size = lanes, size
        self.indices: list[Any] = [None] * lanes

    def build(self, occupied: Tensor, lanes: Tensor, vectors: Callable[[Tensor], Tensor]) -> None:
        import faiss

        for lane in lanes.nonzero()[:, 0].tolist():
            slots = occupied[lane].nonzero()[:, 0]
            lists = int(min(max(LISTS * len(slots) ** 0.5, 1), max(len(slots) // TRAINED_ON, 1)))
            kind = faiss.ScalarQuantizer.QT_fp16
            coarse = faiss.IndexFlatL2(self.size)
            index = faiss.IndexIVFScalarQuantizer(coarse, self.size, lists, kind, faiss.METRIC_L2, False)
            index.cp.niter, index.cp.min_points_per_centroid = 10, 1
            index.nprobe = PROBES
            step = max(1, len(slots) // (lists * TRAINED_ON))
            index.train(self._rows(lane, slots[::step], vectors))
            for part in slots.split(1 << 17):
                index.add_with_ids(self._rows(lane, part, vectors), part.numpy())
            self.indices[lane] = index

    def _rows(self, lane: int, slots: Tensor, vectors: Callable[[Tensor], Tensor]) -> Any:
        return vectors(slots.expand(self.lanes, -1))[lane].contiguous().numpy()

    def replace(self, gone: Tensor, slots: Tensor, real: Tensor, vectors: Tensor) -> None:
        for lane, index in enumerate(self.indices):
            if index is None or not (real[lane].any() or gone[lane].any()):
                continue
            index.remove_ids(gone[lane].nonzero()[:, 0].numpy())
            index.add_with_ids(vectors[lane, real[lane]].numpy(), slots[lane, real[lane]].numpy())

    def search(self, queries: Tensor, real: Tensor, k: int) -> Tensor:
        found = np.full((*real.shape, k), -1, np.int64)
        for lane, index in enumerate(self.indices):
            mine = real[lane].numpy()
            if mine.any():
                found[lane, mine] = index.search(queries[lane, real[lane]].numpy(), k)[1]
        return torch.from_numpy(found)

    @property
    def nbytes(self) -> int:
        per_vector = 2 * self.size + 8
        return sum(
            index.ntotal * per_vector + index.nlist * 4 * self.size for index in self.indices if index is not None
        )
