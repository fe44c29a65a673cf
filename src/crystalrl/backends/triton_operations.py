"""Sum trees on CUDA: the operations of a tree as launches of Triton kernels."""

from __future__ import annotations

from torch import Tensor

from crystalrl.backends import triton_sample, triton_tree, triton_writes
from crystalrl.backends.protocols import Gate, RandomStreams, Rule, SlotColumns, TreeTensors


class TritonTree:
    """`TreeOperations` by Triton kernels."""

    def __init__(self, tensors: TreeTensors) -> None:
        self._tree = triton_tree.Tree(*tensors[:4], tensors.slots)

    def sample(
        self, streams: RandomStreams, stream: int, stratum: Tensor, count: Tensor, beta: Tensor, gate: Gate
    ) -> tuple[Tensor, Tensor, Tensor]:
        random = (streams.keys, streams.ticks, int(stream))
        return triton_sample.sample(self._tree, random, stratum, count, beta, gate.tensors)

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        return triton_sample.draw(self._tree, uniform, stratum)

    def learn(self, slots: Tensor, ticket: Tensor, magnitude: Tensor, rule: Rule) -> None:
        triton_tree.learn(self._tree, rule, slots.contiguous(), ticket.contiguous(), magnitude.contiguous())

    def set(self, slots: Tensor, weight: Tensor, label: Tensor) -> None:
        triton_tree.set_weights(self._tree, slots.contiguous(), weight.contiguous(), label.contiguous())

    def commit(self, slots: Tensor, rule: Rule, columns: SlotColumns | None, c: Tensor | None) -> None:
        triton_writes.commit(self._tree, slots.contiguous(), rule, columns, c)

    def rebuild(self) -> None:
        triton_tree.build_sums(self._tree)
