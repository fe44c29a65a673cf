"""A TorchRL loss that gives each sample its weight, and adds the pull of the anchors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from crystalrl.integrations.anchors import squared_pull
from crystalrl.integrations.randomness import private_randomness
from crystalrl.integrations.torchrl.learners import learner_of
from crystalrl.types import Anchor, Batch, Evaluation

WEIGHT = ("memory", "weight")
Report = Callable[[Tensor, Tensor], None]
"""Takes slots and |δ| [B]."""


def entries(batch: Batch) -> dict[Any, Tensor]:
    """What a batch's tensordict carries of the memory: the weight, and target and strength of each anchor."""
    found: dict[Any, Tensor] = {WEIGHT: batch.weight}
    for name, anchor in (batch.anchor or {}).items():
        found[("memory", name)], found[("memory", f"{name}_strength")] = anchor.target, anchor.coefficient
    return found


class MemoryLoss(nn.Module):
    """Wraps a DQNLoss, SACLoss or TD3Loss. Invariant: the critic's part is mean(weight · loss), all others plain means.

    TorchRL's own `reduction="mean"` divides by the sum of the weights, so that constant weights change nothing and all
    zeros give NaN; and it weighs the actor, too. So the loss is switched to `reduction="none"` without weights, and
    both are done here. `loss_anchor_q` and `loss_anchor_policy` come on top: add them as you add the others.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.learner = learner_of(loss)
        if getattr(loss, "reduction", None) not in ("mean", "none"):
            raise ValueError(f"reduction: wanted 'mean' or 'none', got {getattr(loss, 'reduction', None)!r}")
        self.loss = loss
        self.loss.reduction, self.loss.use_prioritized_weights = "none", False  # type: ignore[assignment]
        if hasattr(loss, "scalar_output_mode"):
            self.loss.scalar_output_mode = "exclude"  # type: ignore[assignment]
        self.updates = 0
        """Batches weighed so far."""
        self.report: Report | None = None
        """Told slots and |δ| of every batch that is weighed with gradients."""

    def forward(self, batch: Any) -> TensorDict:
        weight = batch.get(WEIGHT, None)
        if weight is None:
            raise KeyError("batch: wanted one that a CrystalSampler has drawn, got one without its weights")
        out, outputs = self.learner.forward(batch)
        losses = {
            name: (value * weight).mean() if name == self.learner.critic else value.mean()
            for name, value in out.items()
            if name.startswith("loss")
        }
        for name, output in outputs.items():
            target = batch.get(("memory", name), None)
            if target is not None:
                anchor = Anchor(target, batch.get(("memory", f"{name}_strength")))
                pull = self.learner.pull(anchor, output) if name == "policy" else squared_pull(anchor, output)
                losses[f"loss_anchor_{name}"] = pull
        if torch.is_grad_enabled():
            self.updates += 1
            if self.report is not None:
                self.report(batch.get("index"), self.learner.error(batch, out, outputs["q"]).detach())
        return TensorDict(losses, [])

    @torch.no_grad()
    def evaluate(self, batch: Any) -> Evaluation:
        """TD errors and outputs now; the run's random numbers stay as they were."""
        batch = batch.clone(False)
        with private_randomness(batch.get(("next", "reward")).device):
            out, outputs = self.learner.forward(batch)
        return Evaluation(self.learner.error(batch, out, outputs["q"]), outputs)
