"""Weights and anchors enter the gradients here, without a change to the algorithm.

The loss of SB3 is a mean over the batch, so the gradient of sample b at the critic's output, times its weight, is the
gradient of the weighted loss; the gradient of an anchor's pull is added to it there. A hook acts on the replayed batch
only: it knows the very tensors that `sample` gave away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from crystalrl.integrations.sb3.learners import LOG_STD, ActorCritic, Learner
from crystalrl.types import Anchor, Batch

Report = Callable[[Tensor, Tensor], None]
"""Takes slots and |δ| [B]."""


class Hooks:
    """The hooks of one model for one buffer. Invariant: a critic has at most one set of them, the newest.

    A copy of a network (deepcopy, pickle) gets hooks without a batch: they do nothing, and take no memory along.
    """

    def __init__(self, learner: Learner | None = None, report: Report | None = None) -> None:
        """`report` is told |δ| after each backward pass, where the gradient has it."""
        self.batch: Batch | None = None
        self.samples: Any = None
        self.used = False
        """Whether a critic has ever met a batch given to `arm`."""
        if learner is None:
            return
        self.learner, self.report = learner, report
        former = _HOOKED.get(learner.critic)
        if former is not None:
            former.remove()
        self.handles = [learner.critic.register_forward_hook(self.on_critic)]
        if isinstance(learner, ActorCritic):
            actor = learner.model.actor
            if learner.gaussian:
                self.handles += [actor.mu.register_forward_hook(self.on_mean)]
                if isinstance(actor.log_std, nn.Module):  # under state-dependent exploration it is a parameter
                    self.handles += [actor.log_std.register_forward_hook(self.on_log_std)]
            else:
                self.handles += [actor.register_forward_hook(self.on_actor)]
        _HOOKED[learner.critic] = self

    def __reduce__(self) -> Any:
        return Hooks, ()

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def arm(self, batch: Batch, samples: Any) -> None:
        """The next pass over these samples gets the weights and anchors of this batch."""
        self.batch, self.samples, self.mean = batch, samples, None
        self.errors: list[Tensor] = []
        self.policy_waits = batch.anchor is not None and "policy" in batch.anchor

    def on_critic(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        batch, samples = self.batch, self.samples
        if batch is None or not torch.is_grad_enabled() or inputs[0] is not samples.observations:
            return
        if len(inputs) > 1 and inputs[1] is not samples.actions:
            return  # the actor's own actions
        self.used = True
        parts = list(output) if isinstance(output, tuple) else [output]
        pulls: list[Tensor] | list[None] = [None] * len(parts)
        if batch.anchor is not None:
            anchor = batch.anchor["q"]
            difference = self.learner.values(output).detach() - anchor.target
            pulls = self.learner.spread(difference * strength(anchor, 2.0), output)
        weight = batch.weight.view(-1, *[1] * (parts[0].dim() - 1))
        for part, pull in zip(parts, pulls, strict=True):
            part.register_hook(self._weigh(weight, pull, batch.index, len(parts)))

    def _weigh(self, weight: Tensor, pull: Tensor | None, index: Tensor, parts: int) -> Callable[[Tensor], Tensor]:
        def weigh(gradient: Tensor) -> Tensor:
            if self.report is not None:
                self.errors.append(gradient)
                if len(self.errors) == parts:
                    self._tell(index)
            return gradient * weight if pull is None else torch.addcmul(pull, gradient, weight)

        return weigh

    def _tell(self, index: Tensor) -> None:
        """|δ| from the gradients of the mean loss: B·scale·|gradient|, the mean over twins."""
        twins, first = len(self.errors), self.errors[0]
        size = (first if twins == 1 else torch.cat(self.errors, 1)).abs().sum(1)
        size *= len(first) * self.learner.scale / twins
        self.errors = []
        assert self.report is not None
        self.report(index, size)

    def _policy_anchor(self, output: Tensor) -> Anchor | None:
        """The policy's anchor, if this is the replayed batch's pass with gradients."""
        if not self.policy_waits or not torch.is_grad_enabled() or self.batch is None:
            return None
        anchors: Mapping[str, Anchor] = self.batch.anchor or {}
        return anchors["policy"] if len(output) == len(self.batch.weight) else None

    def on_mean(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if self._policy_anchor(output) is not None:
            self.mean = output

    def on_log_std(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        """SB3's actor asks for the mean, then for log σ: the first such pair with gradients after `sample` is the
        replayed batch (SAC and TQC begin their step with it)."""
        anchor = self._policy_anchor(output)
        if anchor is None or self.mean is None:
            return
        mean, self.mean, self.policy_waits = self.mean, None, False
        pull_mean, pull_log_std = kl_gradient(anchor, mean.detach(), output.detach())
        mean.register_hook(lambda gradient: gradient + pull_mean)
        output.register_hook(lambda gradient: gradient + pull_log_std)

    def on_actor(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        anchor = self._policy_anchor(output)
        if anchor is None or inputs[0] is not self.samples.observations:
            return
        pull = (output.detach() - anchor.target) * strength(anchor, 2.0)
        output.register_hook(lambda gradient: gradient + pull)

    policy_waits: bool = False
    mean: Tensor | None = None


_HOOKED: WeakKeyDictionary[nn.Module, Hooks] = WeakKeyDictionary()


def strength(anchor: Anchor, factor: float) -> Tensor:
    """[B, 1]: coefficient · factor / B, for the gradient of a mean over the batch."""
    return (anchor.coefficient * (factor / len(anchor.coefficient))).unsqueeze(1)


def kl_gradient(anchor: Anchor, mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient with respect to mean and log σ [B, A] of mean_b coefficient · KL(anchor ‖ policy), before tanh.

    The divergence is `losses.gaussian_kl`. SB3 clamps log σ, so there is no pull beyond the clamp.
    """
    old_mean, old_log_std = anchor.target.chunk(2, 1)
    clamped = log_std.clamp(*LOG_STD)
    precision = (-2 * clamped).exp()
    difference = mean - old_mean
    pull = strength(anchor, 1.0)
    by_log_std = 1 - ((2 * old_log_std).exp() + difference**2) * precision
    return pull * difference * precision, pull * by_log_std * (clamped == log_std)
