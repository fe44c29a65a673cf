"""Maximally interfered retrieval (Aljundi et al. 2019): replay what the next step would damage most.

A virtual step along the gradient of the first part of the drawn batch, which a reservoir memory fills with the newest
experiences, gives parameters θ′. Of some candidates from the memory, those whose loss rises most, l(θ′) − l(θ) with
l = (TD error)², take the place of the other part.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.methods.base import Method, Setup
from crystalrl.methods.batches import joined, taken
from crystalrl.types import Batch


@dataclass(frozen=True)
class MIRParams:
    """Settings of maximally interfered retrieval."""

    candidates: float = 5.0
    """Candidates per retrieved experience: 50 for 10 in the authors' scripts."""
    share: float = 0.5
    """Share of a batch that is retrieved: 10 in addition to 10 new ones in the authors' scripts."""
    rate: float = 0.05
    """Learning rate of the virtual step, plain gradient descent: the authors' scripts, for permuted MNIST."""

    def __post_init__(self) -> None:
        for name, good, wanted in (
            ("candidates", self.candidates >= 1, "a number ≥ 1"),
            ("share", 0 < self.share < 1, "a number between 0 and 1"),
            ("rate", self.rate > 0, "a number > 0"),
        ):
            if not good:
                raise ValueError(f"{name}: wanted {wanted}, got {getattr(self, name)}")


class MIR(Method):
    """Retrieves from the memory itself: nothing is stored in addition."""

    def __init__(self, setup: Setup, params: MIRParams) -> None:
        self.agent, self.memory, self.rate = setup.agent, setup.memory, params.rate
        self.retrieved = max(round(params.share * setup.batch), 1)
        self.candidates = round(params.candidates * self.retrieved)

    def augment(self, batch: Batch) -> Batch:
        """The batch, its last samples replaced by the most interfered candidates."""
        candidates = self.memory.sample(self.candidates)
        places = torch.arange(batch.index.shape[1] - self.retrieved, device=batch.index.device)
        kept = taken(batch, places.expand(len(batch.index), -1))
        worst = self.interference(kept, candidates).topk(self.retrieved, dim=1).indices
        return joined(kept, taken(candidates, worst))

    def interference(self, batch: Batch, candidates: Batch) -> Tensor:
        """[L, C]: how much a step on the batch would raise the loss of each candidate. No parameter changes."""
        thetas = {name: part.theta for name, part in self.agent.parts.items()}
        step = self.agent.gradients(batch, list(thetas))
        before, kept = _losses(self.agent, candidates), {name: theta.detach().clone() for name, theta in thetas.items()}
        with torch.no_grad():
            for name, theta in thetas.items():
                theta.sub_(self.rate * step[name])
            after = _losses(self.agent, candidates)
            for name, theta in thetas.items():
                theta.copy_(kept[name])
        return after - before


def _losses(agent: Agent, batch: Batch) -> Tensor:
    return agent.evaluate(batch).td_error.square()
