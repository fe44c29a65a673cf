"""Networks of many lanes at once: all parameters of a lane are one row of one tensor `theta` float32[L, P].

A network is only a description of how a row is cut into layers; parameters are an argument. So a target network, a
snapshot or a penalty is another [L, P] tensor, and the optimiser, the clipping and Polyak averaging are a few
operations on whole rows. Lanes never mix: every operation is batched over the leading axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from crystalrl.random import Stream, Streams

ROW = 256
"""Rows are padded to a multiple of this, so that sums over a row are taken in pieces of fixed length."""

Tap = Callable[[int, Tensor, Tensor], Tensor]
"""Sees (layer, input [L, B, in], output [L, B, out]) and returns the output to go on with."""


class LaneMLP:
    """A multi-layer perceptron with ReLU; with `dueling`, two linear heads V and A and Q = V + A − mean A.

    Invariant: `split(theta)` gives one (weight [L, in, out], bias [L, 1, out]) per layer, as views of theta.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, dueling: bool = False) -> None:
        if not hidden or min(inputs, outputs, *hidden) < 1:
            raise ValueError(f"network: wanted positive widths and a hidden layer, got {inputs}, {hidden}, {outputs}")
        widths = [inputs, *hidden]
        self.layers = [*pairwise(widths), (widths[-1], outputs)]
        if dueling:
            self.layers.append((widths[-1], 1))
        self.dueling, self.depth = dueling, len(hidden)
        sizes = [size for fan_in, fan_out in self.layers for size in (fan_in * fan_out, fan_out)]
        self.used = sum(sizes)
        self.size = -(-self.used // ROW) * ROW
        self._sizes = [*sizes, self.size - self.used]

    def split(self, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(weight [L, in, out], bias [L, 1, out]) of every layer."""
        pieces = theta.split(self._sizes, dim=1)
        return [
            (pieces[2 * i].unflatten(1, shape), pieces[2 * i + 1].unsqueeze(1)) for i, shape in enumerate(self.layers)
        ]

    def __call__(self, theta: Tensor, obs: Tensor, tap: Tap | None = None) -> Tensor:
        """Outputs [L, B, A] for observations [L, B, D]."""
        layers = self.split(theta)
        hidden = obs
        for i in range(self.depth):
            hidden = torch.relu(self._layer(i, hidden, layers[i], tap))
        out = self._layer(self.depth, hidden, layers[self.depth], tap)
        if not self.dueling:
            return out
        value = self._layer(self.depth + 1, hidden, layers[self.depth + 1], tap)
        return value + out - out.mean(-1, keepdim=True)

    def _layer(self, index: int, x: Tensor, layer: tuple[Tensor, Tensor], tap: Tap | None) -> Tensor:
        out = lane_linear(x, *layer)
        return out if tap is None else tap(index, x, out)

    def initial(self, streams: Streams) -> Tensor:
        """float32[L, P]: uniform in ±1/√fan_in, one tick of the initialisation stream per layer."""
        lanes = len(streams.seeds)
        theta = torch.zeros(lanes, self.size, device=streams.device)
        at = 0
        for fan_in, fan_out in self.layers:
            width = (fan_in + 1) * fan_out
            uniform = streams.uniform(Stream.INITIALISE, width)
            theta[:, at : at + width] = ((2 * uniform - 1) / math.sqrt(fan_in)).to(torch.float32)
            at += width
        return theta


def lane_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x [L, B, in] · weight [L, in, out] + bias [L, 1, out].

    Width 1 is a product and a sum: there `baddbmm` gives other bits for one lane than for several.
    """
    if weight.shape[-1] == 1:
        return (x * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
    return torch.baddbmm(bias, x, weight)


def row_norm(rows: Tensor) -> Tensor:
    """Euclidean norm [L, 1] of rows [L, P], P a multiple of ROW; the same bits for one lane as for many."""
    return rows.reshape(len(rows), -1, ROW).square().sum(-1).sum(-1, keepdim=True).sqrt()
