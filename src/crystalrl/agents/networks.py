"""Networks of many lanes at once: all parameters of a lane are one row of one tensor `theta` float32[L, P].

A network only describes how a row is split into layers; parameters are an argument. So a target network, a snapshot
or a penalty is another [L, P] tensor, and the optimiser, clipping and Polyak averaging are a few operations on whole
rows. Lanes never mix: every operation is batched over the leading axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from crystalrl.backends import onednn
from crystalrl.random import Stream, Streams

ROW = 256
"""Rows are padded to a multiple of this, so that a row is summed in pieces of fixed length."""
SIGMA = 0.5
"""Initial noise scale of noisy layers, divided by √fan_in (Fortunato et al. 2018)."""
FILTERS = {84: ((32, 8, 4), (64, 4, 2), (64, 3, 1)), 10: ((16, 3, 1),)}
"""Smallest frame size → (channels, kernel, stride) of each convolution (Mnih et al. 2015; Young and Tian 2019)."""

Tap = Callable[[int, Tensor, Tensor], Tensor]
"""Takes (layer, input [L, B, in], output [L, B, out]) and returns the output to continue with. A convolution gives the
patches and outputs [L, B·Q, …] at its Q positions."""
Shape = tuple[int, ...]
Layer = tuple[Tensor, Tensor]


class LaneNetwork:
    """A perceptron with ReLU on vectors (D,); on frames (H, W, C) convolutions come first. A stack of fewer than ten
    frames (C, H, W) is taken as such.

    Each head has `outputs` A numbers, or A distributions over `atoms` if there are several; the context selects the
    head. With `dueling`, two linear layers V and A give Q = V + A − mean A. With `layer_norm` every hidden layer is
    normalised before ReLU (without a learnt scale: the next layer has one). With `noisy` every linear layer also has
    noise scales, stored after all weights in theta; called without noise, it is the plain network. With several
    `columns`, hidden units form as many groups, and every layer after the first hidden one also reads an adapter:
    U·ReLU(α·V·x), with a scale α for each group (Rusu et al. 2016), stored last in theta; which weights are 0 is
    decided by the method that trains the network.

    Invariant: `split(theta)` gives one (weight [L, in, out], bias [L, 1, out]) per layer, as views of theta.
    """

    def __init__(
        self,
        inputs: Shape,
        hidden: Sequence[int],
        outputs: int,
        *,
        dueling: bool = False,
        layer_norm: bool = False,
        heads: int = 1,
        atoms: int = 1,
        noisy: bool = False,
        columns: int = 1,
    ) -> None:
        if any(units % columns for units in hidden):
            raise ValueError(f"width: wanted one that {columns} columns divide, got {hidden[0]}")
        if not hidden or min(outputs, heads, atoms, *inputs, *hidden) < 1:
            raise ValueError(f"network: wanted positive widths and a hidden layer, got {inputs}, {hidden}, {outputs}")
        self.inputs, self.outputs, self.heads, self.atoms = inputs, outputs, heads, atoms
        self.dueling, self.layer_norm, self.noisy, self.depth = dueling, layer_norm, noisy, len(hidden)
        self.filters, folded, flat = _convolutions(inputs)
        widths = [flat, *hidden]
        linear = [*pairwise(widths), (widths[-1], heads * outputs * atoms)]
        if dueling:
            linear.append((widths[-1], heads * atoms))
        self.layers = [*folded, *linear]
        self.first_hidden, self.first_head = len(self.filters), len(self.filters) + self.depth
        """Numbers of the first hidden layer and of the first that makes outputs; convolutions come before both."""
        self.columns = columns
        noise = linear if noisy else []
        read = linear[1:] if columns > 1 else []
        self.adapters = [shape for fan_in, fan_out in read for shape in ((fan_in, fan_in), (fan_in, fan_out))]
        """(in, out) of V and U of every adapter. The bias of V holds α, at the first unit of each group."""
        self.split_shapes = [*self.layers, *noise, *self.adapters]
        """(in, out) of everything that `split` gives."""
        sizes = [size for fan_in, fan_out in self.split_shapes for size in (fan_in * fan_out, fan_out)]
        self.used = sum(sizes)
        self.size = -(-self.used // ROW) * ROW
        self._sizes = [*sizes, self.size - self.used]
        self.noise_size = sum(fan_in + fan_out for fan_in, fan_out in noise)
        """Standard normals per lane for one noisy pass."""

    def split(self, theta: Tensor) -> list[Layer]:
        """(weight [L, in, out], bias [L, 1, out]) of every layer, then of noise scales and adapters, if any."""
        pieces = theta.split(self._sizes, dim=1)
        return [
            (pieces[2 * i].unflatten(1, shape), pieces[2 * i + 1].unsqueeze(1))
            for i, shape in enumerate(self.split_shapes)
        ]

    def __call__(
        self,
        theta: Tensor,
        obs: Tensor,
        context: Tensor | None = None,
        tap: Tap | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Outputs [L, B, A], or [L, B, A, atoms], for observations [L, B, …] and contexts int[L, B].

        noise [L, noise_size]: standard normals for the noisy layers; None: no noise.
        """
        run = _Pass(self, self.split(theta), tap, noise)
        hidden = run.convolve(obs)
        for _ in range(self.depth):
            out = run.linear(hidden)
            hidden = torch.relu(torch.nn.functional.layer_norm(out, out.shape[-1:]) if self.layer_norm else out)
        out = self._headed(run.linear(hidden), self.outputs, context)
        if self.dueling:
            value = self._headed(run.linear(hidden), 1, context)
            out = value + out - out.mean(2, keepdim=True)
        return out if self.atoms > 1 else out.squeeze(-1)

    def _headed(self, out: Tensor, width: int, context: Tensor | None) -> Tensor:
        """[L, B, width, atoms]: each sample's own head."""
        parts: Tensor = out.unflatten(-1, (self.heads, width, self.atoms))
        if self.heads == 1:
            return parts.squeeze(2)
        if context is None:
            raise ValueError(f"context: wanted one of {self.heads} heads for each observation, got none")
        own = context.to(torch.int64)[..., None, None, None].expand(-1, -1, 1, *parts.shape[3:])
        return parts.gather(2, own).squeeze(2)

    def initial(self, streams: Streams) -> Tensor:
        """float32[L, P]: uniform in ±1/√fan_in, one tick of the initialisation stream per layer."""
        lanes = len(streams.seeds)
        theta = torch.zeros(lanes, self.size, device=streams.device)
        at = 0
        for i, (fan_in, fan_out) in enumerate(self.split_shapes):
            width = (fan_in + 1) * fan_out
            if not len(self.layers) <= i < len(self.split_shapes) - len(self.adapters):
                uniform = streams.uniform(Stream.INITIALISE, width)
                theta[:, at : at + width] = ((2 * uniform - 1) / math.sqrt(fan_in)).to(torch.float32)
            else:
                theta[:, at : at + width] = SIGMA / math.sqrt(fan_in)
            at += width
        return theta


class _Pass:
    """One forward pass; it uses the layers in order."""

    def __init__(self, network: LaneNetwork, layers: list[Layer], tap: Tap | None, noise: Tensor | None) -> None:
        self.network, self.layers, self.tap, self.at = network, layers, tap, 0
        self.noise = list(_factors(network, noise)) if noise is not None else []

    def linear(self, x: Tensor) -> Tensor:
        """The next layer on x [L, B, in]."""
        index, self.at = self.at, self.at + 1
        out = lane_linear(x, *self.layers[index])
        place = index - len(self.network.filters)
        if self.noise and place >= 0:
            before, after = self.noise[place]
            out = out + after * lane_linear(before * x, *self.layers[len(self.network.layers) + place])
        if self.network.adapters and place > 0:
            out = out + self._adapted(x, len(self.layers) - len(self.network.adapters) + 2 * (place - 1))
        return out if self.tap is None else self.tap(index, x, out)

    def _adapted(self, x: Tensor, at: int) -> Tensor:
        """What an adapter, layers `at` and at + 1, adds for x [L, B, in]."""
        (down, scale), (up, none) = self.layers[at], self.layers[at + 1]
        groups = scale.unflatten(-1, (self.network.columns, -1))
        each = groups[..., :1].expand_as(groups).flatten(-2)
        return lane_linear(torch.relu(each * lane_linear(x, down, torch.zeros_like(scale))), up, torch.zeros_like(none))

    def convolve(self, obs: Tensor) -> Tensor:
        """Features float[L, B, D] of observations [L, B, …]. A convolution is a linear layer on patches, so that all
        lanes are one batched product, and a lane gets the same bits alone and among others.
        """
        if len(self.network.inputs) == 1:
            return obs
        lanes, batch = obs.shape[:2]
        x = obs.to(torch.float32).flatten(0, 1)
        if _is_stack(self.network.inputs):
            x = x.permute(0, 2, 3, 1)
        if obs.dtype == torch.uint8:
            x = x / 255
        for _, kernel, stride in self.network.filters:
            patches = x.unfold(1, kernel, stride).unfold(2, kernel, stride)  # [L·B, h, w, C, k, k]
            high, wide = patches.shape[1:3]
            out = self.linear(patches.reshape(lanes, batch * high * wide, -1))
            x = torch.relu(out).view(lanes * batch, high, wide, -1)
        return x.reshape(lanes, batch, -1)


def _convolutions(inputs: Shape) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]], int]:
    """Filters for observations of this shape, their (in, out) as linear layers on patches, and the width after them."""
    if len(inputs) == 1:
        return [], [], inputs[0]
    if _is_stack(inputs):
        inputs = (*inputs[1:], inputs[0])
    if len(inputs) != 3 or min(inputs[:2]) < min(FILTERS):
        raise ValueError(f"network: wanted vectors (D,) or frames (H, W, C) of at least 10 × 10, got {inputs}")
    high, wide, channels = inputs
    filters = list(FILTERS[max(size for size in FILTERS if size <= min(high, wide))])
    layers = []
    for out, kernel, stride in filters:
        layers.append((channels * kernel**2, out))
        high, wide, channels = (high - kernel) // stride + 1, (wide - kernel) // stride + 1, out
    return filters, layers, high * wide * channels


def _is_stack(inputs: Shape) -> bool:
    """Whether frames come as (C, H, W): the first axis is too short to be a height."""
    return len(inputs) == 3 and inputs[0] < min(FILTERS) <= min(inputs[1:])


def _factors(network: LaneNetwork, noise: Tensor) -> Sequence[tuple[Tensor, Tensor]]:
    """Factorised noise f(ε) = sign ε·√|ε| for every linear layer: [L, 1, in] and [L, 1, out]."""
    shaped = (noise.sign() * noise.abs().sqrt()).unsqueeze(1)
    linear = network.layers[len(network.filters) :]
    pieces = shaped.split([width for layer in linear for width in layer], dim=-1)
    return [(pieces[2 * i], pieces[2 * i + 1]) for i in range(len(linear))]


def lane_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x [L, B, in] · weight [L, in, out] + bias [L, 1, out].

    On CPU, widths that are not multiples of eight round differently for one lane and for several, so they are padded.
    Large products go to oneDNN.
    """
    if onednn.pays(x, weight):
        return onednn.linear(x, weight, bias)
    short = -weight.shape[-1] % 8
    if not short or x.device.type != "cpu":
        return torch.baddbmm(bias, x, weight)
    return torch.baddbmm(pad(bias, (0, short)), x, pad(weight, (0, short)))[..., :-short]


def row_norm(rows: Tensor) -> Tensor:
    """Euclidean norm [L, 1] of rows [L, P], P a multiple of ROW; a lane gets the same bits alone and among others."""
    return rows.reshape(len(rows), -1, ROW).square().sum(-1).sum(-1, keepdim=True).sqrt()
