"""Near states from products of matrices, exactly: all distances at once where there are few enough states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor


@cache
def fastest() -> torch.dtype:
    """The type whose products are fastest: bfloat16 where the processor has instructions for it, else float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)
    return torch.bfloat16 if supported() else torch.float32


@dataclass(frozen=True)
class Vectors:
    """Vectors of slots, and what is known of their rounded copies."""

    exact: Any
    """float32[M, D]"""
    rounded: Tensor
    """[M, D] of the type of the products."""
    norm: Any
    """float32[M]: squared norms of the rounded vectors."""
    error: Any
    """float32[M]: distances to the rounded vectors."""
    slots: Any
    """int64[M]"""

    def part(self, rows: slice) -> tuple[Any, Any, Any, Any]:
        """Some vectors as the loops take them."""
        return self.exact[rows], self.norm[rows], self.error[rows], self.slots[rows]


@dataclass(frozen=True)
class Products:
    """Searches among stored states by products with all of them."""

    loops: ModuleType
    """`numba_products`"""
    kind: torch.dtype = field(default_factory=fastest)
    """Type of the factors of products."""
    height: ClassVar[int] = 256
    width: ClassVar[int] = 2048
    """Rows and columns multiplied at once, so that the products stay in the cache."""

    def vectors(self, exact: Tensor, slots: Tensor) -> Vectors:
        """Vectors float32[M, D] of slots int64[M]."""
        rounded, (norm, error) = torch.empty_like(exact, dtype=self.kind), exact.new_empty(2, len(exact))
        for first in range(0, len(exact), 1 << 12):  # parts that fit into the cache
            part = slice(first, first + (1 << 12))
            rounded[part] = exact[part]
            back = rounded[part].to(torch.float32)
            norm[part], error[part] = back.square().sum(-1), (back - exact[part]).square_().sum(-1).sqrt_()
        return Vectors(exact.numpy(), rounded, norm.numpy(), error.numpy(), slots.numpy())

    def nearest(self, points: Vectors, states: Vectors, few: int, k: int, near: float, first: Any) -> Any:
        """int32[M, k]: the `few` states nearest to each point, and more of those within `near`, nearest first, −1 for
        none; never the point's own slot. first float32[M]: no fewer than `few` states are within this distance."""
        names = np.full((len(points.slots), k), -1, np.int32)
        far = np.full(names.shape, np.inf, np.float32)
        held, start = np.zeros(len(names), np.int64), np.float32(1 + 1e-5) * first**2
        for rows, columns, tile in self._tiles(points, states):
            found, wanted = (names[rows], far[rows], held[rows]), (min(few, k), np.float32(near) ** 2, start[rows])
            self.loops.keep_nearest(tile, points.part(rows), states.part(columns), self._how(points), wanted, found)
        return names

    def offer(self, points: Vectors, new: Vectors, lists: Any, space: Any, last: Any) -> None:
        """Offer new states to the lists of the points' slots; last float32[N]: squared distances of their last
        entries."""
        for rows, columns, tile in self._tiles(points, new):
            self.loops.offer(tile, points.part(rows), new.part(columns), self._how(points), lists, space, last)

    def _how(self, points: Vectors) -> tuple[Any, Any]:
        """Errors of twice a product: relative to it, as its type rounds, and to the norms of the factors, as sums in
        float32 round."""
        relative = 2.0**-8 if points.rounded.dtype == torch.bfloat16 else 0.0
        return np.float32(2.02 * relative), np.float32((2 * points.rounded.shape[1] + 8) * 2.0**-23)

    def _tiles(self, points: Vectors, states: Vectors) -> Iterator[tuple[slice, slice, Any]]:
        """Rows, columns and their products float32."""
        count = len(states.slots)
        columns = [slice(first, min(first + self.width, count)) for first in range(0, count, self.width)]
        factors = [states.rounded[part].t() for part in columns]
        for top in range(0, len(points.slots), self.height):
            rows = slice(top, min(top + self.height, len(points.slots)))
            left, kept = (
                points.rounded[rows],
                {part.stop - part.start: self._room(rows, part, points) for part in columns},
            )
            for part, right in zip(columns, factors, strict=True):
                rough, tile, array = kept[part.stop - part.start]
                torch.mm(left, right, out=rough)
                if rough is not tile:
                    tile.copy_(rough)
                yield rows, part, array

    @staticmethod
    def _room(rows: slice, columns: slice, points: Vectors) -> tuple[Tensor, Tensor, Any]:
        """Room for products: of the type of the factors, as float32, and as an array."""
        rough = points.rounded.new_empty(rows.stop - rows.start, columns.stop - columns.start)
        tile = rough.to(torch.float32)
        return rough, tile, tile.numpy()
