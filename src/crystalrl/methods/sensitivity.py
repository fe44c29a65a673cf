"""How strongly each parameter acts on the outputs: means over samples of squared or absolute gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crystalrl.agents.networks import LaneNetwork

Elementwise = Callable[[Tensor], Tensor]


def mean_gradients(
    network: LaneNetwork,
    theta: Tensor,
    inputs: tuple[Tensor, Tensor | None],
    scalar: Callable[[Tensor], Tensor],
    size: Elementwise,
) -> Tensor:
    """float32[L, P]: mean over a batch of size(∂scalar/∂θ) of each sample, with size = torch.square or torch.abs.

    `inputs` are observations [L, B, …] and contexts [L, B]; `scalar` maps outputs [L, B, …] to a number per sample, and
    is summed. A sample's gradient of a weight is input × output gradient, summed over the positions of a convolution,
    so one backward pass serves all samples.
    """
    entering: list[Tensor] = []
    outputs: list[Tensor] = []

    def tap(index: int, x: Tensor, out: Tensor) -> Tensor:
        entering.append(x.detach())
        outputs.append(out)
        return out

    obs, context = inputs
    slopes = torch.autograd.grad(scalar(network(theta, obs, context, tap)).sum(), outputs)
    pieces = []
    for x, slope in zip(entering, slopes, strict=True):
        bias = slope.unflatten(1, (obs.shape[1], -1)).sum(2)
        pieces += [_mean_outer(x, slope, obs.shape[1], size).flatten(1), size(bias).mean(1)]
    known = sum(piece.shape[1] for piece in pieces)  # the rest is padding, or noise scales, which are not used here
    return torch.cat([*pieces, theta.new_zeros(theta.shape[0], network.size - known)], dim=1)


def _mean_outer(x: Tensor, slope: Tensor, batch: int, size: Elementwise) -> Tensor:
    """[L, in, out]: mean over B of size(Σ_q x [L, B·Q, in] ⊗ slope [L, B·Q, out])."""
    if x.shape[1] > batch:
        places = x.shape[1] // batch
        patch, slopes = (part.reshape(-1, places, part.shape[-1]) for part in (x, slope))
        each = torch.bmm(patch.transpose(1, 2), slopes)
        mean: Tensor = size(each).unflatten(0, (-1, batch)).mean(1)
        return mean
    if slope.shape[-1] == 1:  # a sum, because a product of width one rounds differently for one lane
        return (size(x) * size(slope)).mean(1).unsqueeze(-1)
    return torch.bmm(size(x).transpose(1, 2), size(slope)) / x.shape[1]
