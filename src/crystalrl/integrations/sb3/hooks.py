"""Hooks that apply weights and anchors to the gradients without changing the algorithm.

SB3's loss is a mean over the batch, so the gradient of sample b at the critic's output, times the weight of b, is the
gradient of the weighted loss. The gradient of the anchor loss is added there. A hook acts on the replayed batch only,
which it recognises by the identity of the tensors that `sample` returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from crystalrl.integrations.anchors import advantage_pull, gaussian_pull, pull_gradients, squared_pull
from crystalrl.integrations.sb3.adapters import LOG_STD, ActorCritic, Adapter
from crystalrl.types import Anchor, Batch

Report = Callable[[Batch, Tensor], None]
"""Called with a drawn batch and its |δ| [B]."""


class Hooks:
    """The hooks of one model for one buffer. Invariant: a critic has at most one set of hooks, the newest.

    A copied network (deepcopy, pickle) gets hooks without a batch, which do nothing and do not copy the memory.
    """

    def __init__(self, adapter: Adapter | None = None, report: Report | None = None) -> None:
        """`report` receives |δ| after each backward pass; None where the gradient does not give it."""
        self.batch: Batch | None = None
        self.samples: Any = None
        self.used = False
        """Whether the critic has ever been given an armed batch."""
        self.gradients: list[Tensor] = []
        """Gradients of the armed batch, one for each tensor of the critic's output so far."""
        self.mean: Tensor | None = None
        """Mean of the policy, between its forward pass and that of log σ."""
        self.policy_pending = False
        """Whether the policy's anchor of the armed batch is still to be applied."""
        self.handles: list[RemovableHandle] = []
        if adapter is None:
            return
        self.adapter, self.report = adapter, report
        for former in hooks_of(adapter.critic):
            former.remove()
        self.handles = [adapter.critic.register_forward_hook(self.on_critic)]
        if isinstance(adapter, ActorCritic):
            actor = adapter.model.actor
            if adapter.gaussian:
                self.handles += [actor.mu.register_forward_hook(self.on_mean)]
                if isinstance(actor.log_std, nn.Module):  # under state-dependent exploration it is a parameter
                    self.handles += [actor.log_std.register_forward_hook(self.on_log_std)]
            else:
                self.handles += [actor.register_forward_hook(self.on_actor)]

    def __reduce__(self) -> Any:
        return Hooks, ()

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def arm(self, batch: Batch, samples: Any) -> None:
        """Apply the weights and anchors of this batch in the next forward pass over these samples."""
        self.batch, self.samples, self.mean, self.gradients = batch, samples, None, []
        self.policy_pending = batch.anchor is not None and "policy" in batch.anchor

    def on_critic(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        batch, samples = self.batch, self.samples
        if batch is None or not torch.is_grad_enabled() or inputs[0] is not samples.observations:
            return
        if len(inputs) > 1 and inputs[1] is not samples.actions:
            return  # actions chosen by the actor, not the stored ones
        self.used = True
        parts = list(output) if isinstance(output, tuple) else [output]
        pull = None
        if batch.anchor is not None and "advantage" in batch.anchor:
            anchor = batch.anchor["advantage"]
            (pull,) = pull_gradients(advantage_pull, anchor, self.adapter.values(output))
            pull = self.adapter.output_gradient(pull, output)
        weight = batch.weight.view(-1, *[1] * (parts[0].dim() - 1))
        for part in parts:
            part.register_hook(self._weighted(weight, pull, batch, len(parts)))

    def _weighted(self, weight: Tensor, pull: Tensor | None, batch: Batch, parts: int) -> Callable[[Tensor], Tensor]:
        def hook(gradient: Tensor) -> Tensor:
            if self.report is not None:
                self.gradients.append(gradient)
                if len(self.gradients) == parts:
                    self._report_errors(batch)
            return gradient * weight if pull is None else torch.addcmul(pull, gradient, weight)

        return hook

    def _report_errors(self, batch: Batch) -> None:
        """|δ| from the gradients of the mean loss: scale · B · |gradient|, the mean over twins."""
        twins, first = len(self.gradients), self.gradients[0]
        size = (first if twins == 1 else torch.cat(self.gradients, 1)).abs().sum(1)
        size *= len(first) * self.adapter.scale / twins
        self.gradients = []
        assert self.report is not None
        self.report(batch, size)

    def _policy_anchor(self, output: Tensor) -> Anchor | None:
        """The policy's anchor, if this is the forward pass of the replayed batch with gradients."""
        if not self.policy_pending or not torch.is_grad_enabled() or self.batch is None:
            return None
        anchors: Mapping[str, Anchor] = self.batch.anchor or {}
        return anchors["policy"] if len(output) == len(self.batch.weight) else None

    def on_mean(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if self._policy_anchor(output) is not None:
            self.mean = output

    def on_log_std(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        """SB3's actor computes the mean, then log σ. The first such pair with gradients after `sample` belongs to the
        replayed batch: SAC and TQC start their step with it.
        """
        anchor = self._policy_anchor(output)
        if anchor is None or self.mean is None:
            return
        mean, self.mean, self.policy_pending = self.mean, None, False
        pull_mean, pull_log_std = pull_gradients(_clamped_pull, anchor, mean, output)
        mean.register_hook(lambda gradient: gradient + pull_mean)
        output.register_hook(lambda gradient: gradient + pull_log_std)

    def on_actor(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        anchor = self._policy_anchor(output)
        if anchor is None or inputs[0] is not self.samples.observations:
            return
        (pull,) = pull_gradients(squared_pull, anchor, output)
        output.register_hook(lambda gradient: gradient + pull)


def hooks_of(critic: nn.Module) -> list[Hooks]:
    """The hooks that a critic has. Only the critic holds them: a separate registry would keep every model alive."""
    owners = (getattr(hook, "__self__", None) for hook in critic._forward_hooks.values())
    return [owner for owner in owners if isinstance(owner, Hooks)]


def _clamped_pull(anchor: Anchor, mean: Tensor, log_std: Tensor) -> Tensor:
    """SB3 clamps log σ, so there is no pull beyond the clamp."""
    return gaussian_pull(anchor, mean, log_std.clamp(*LOG_STD))
