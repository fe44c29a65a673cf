"""A TorchRL loss with a weight per sample and additional anchor losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from crystalrl.integrations._common import private_randomness
from crystalrl.integrations.anchors import squared_pull
from crystalrl.integrations.torchrl.adapters import adapter_for
from crystalrl.types import Anchor, Batch, Evaluation

WEIGHT = ("memory", "weight")
Report = Callable[[Tensor, Tensor], None]
"""Called with slots int64[B] and |δ| [B]."""


def entries(batch: Batch) -> dict[Any, Tensor]:
    """What the memory adds to a batch's tensordict: the weight, and target and strength of each anchor."""
    found: dict[Any, Tensor] = {WEIGHT: batch.weight}
    for name, anchor in (batch.anchor or {}).items():
        found[("memory", name)], found[("memory", f"{name}_strength")] = anchor.target, anchor.coefficient
    return found


class MemoryLoss(nn.Module):
    """Wraps a DQNLoss, SACLoss or TD3Loss. Invariant: the critic's loss is mean(weight · loss), all others plain means.

    TorchRL's own `reduction="mean"` divides by the sum of the weights, so constant weights have no effect and all
    zeros give NaN; it also weights the actor's loss. So the loss is switched to `reduction="none"` without weights, and
    both are done here. `loss_anchor_advantage` or `loss_anchor_policy` is returned as well: add it like the others.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.adapter = adapter_for(loss)
        if getattr(loss, "reduction", None) not in ("mean", "none"):
            raise ValueError(f"reduction: wanted 'mean' or 'none', got {getattr(loss, 'reduction', None)!r}")
        self.loss = loss
        self.loss.reduction, self.loss.use_prioritized_weights = "none", False  # type: ignore[assignment]
        if hasattr(loss, "scalar_output_mode"):
            self.loss.scalar_output_mode = "exclude"  # type: ignore[assignment]
        self.updates = 0
        """Batches weighted so far."""
        self.report: Report | None = None
        """Called for every batch that is weighted with gradients."""

    def forward(self, batch: Any) -> TensorDict:
        weight = batch.get(WEIGHT, None)
        if weight is None:
            raise KeyError("batch: wanted one that a CrystalSampler has drawn, got one without its weights")
        out, outputs = self.adapter.forward(batch)
        losses = {
            name: (value * weight).mean() if name == self.adapter.critic_loss else value.mean()
            for name, value in out.items()
            if name.startswith("loss")
        }
        for name, output in outputs.items():
            target = batch.get(("memory", name), None)
            if target is not None:
                anchor = Anchor(target, batch.get(("memory", f"{name}_strength")))
                pull = self.adapter.pull(anchor, output) if name == "policy" else squared_pull(anchor, output)
                losses[f"loss_anchor_{name}"] = pull
        if torch.is_grad_enabled():
            self.updates += 1
            if self.report is not None:
                self.report(batch.get("index"), self.adapter.error(batch, out, outputs["q"]).detach())
        return TensorDict(losses, [])

    def __getstate__(self) -> dict[str, Any]:
        """A copy reports to no memory, until a sampler is attached to it."""
        return {**self.__dict__, "report": None}

    @torch.no_grad()
    def evaluate(self, batch: Any) -> Evaluation:
        """Current TD errors and outputs; the state of the run's random generators does not change."""
        batch = batch.clone(False)
        with private_randomness(batch.get(("next", "reward")).device):
            out, outputs = self.adapter.forward(batch)
        stake = self.adapter.stake(batch, outputs["q"])
        return Evaluation(self.adapter.error(batch, out, outputs["q"]), outputs, stake)
