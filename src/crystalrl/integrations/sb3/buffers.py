"""The two replay buffers for Stable-Baselines3."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from crystalrl.integrations.sb3.base import MemoryReplayBuffer
from crystalrl.integrations.sb3.learners import Learner
from crystalrl.integrations.timing import consolidate
from crystalrl.memory import Consolidation, CrystalMemory, PrioritizedMemory, ReplayMemory
from crystalrl.memory.neighbours.index import have_faiss
from crystalrl.params import CrystalParams
from crystalrl.types import Batch

LARGE = 20_000
"""Slots up to which a consolidation takes seconds on a CPU without FAISS."""


class CrystalReplayBuffer(MemoryReplayBuffer):
    """A `CrystalMemory` for SB3. `params` is a preset or your own `CrystalParams`; None: `CrystalParams.anchored()`."""

    def __init__(self, *args: Any, params: CrystalParams | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._params = params or CrystalParams.anchored()

    @property
    def params(self) -> CrystalParams:
        """Those of the memory, which may come from a file; before there is one, those given."""
        return self._params if self.memory is None else self.memory.params

    @staticmethod
    def _anchors(params: CrystalParams, learner: Learner) -> dict[str, tuple[int, ...]]:
        """What is anchored: nothing where nothing pulls and nothing asks whether outputs have settled."""
        return learner.anchors() if params.uses_anchors else {}

    def _make(self, learner: Learner) -> ReplayMemory:
        anchors = self._anchors(self.params, learner)
        if "policy" in anchors and getattr(learner.model, "use_sde", False):
            raise ValueError("use_sde: wanted False, got True: the policy has no log σ per state to anchor")
        compares = self.params.interference != "none" or self.params.backup
        if self.buffer_size > LARGE and compares and not have_faiss():
            warnings.warn(
                f"buffer_size: a consolidation compares each stored state with all others, which takes minutes for "
                f"{self.buffer_size:,}; wanted at most {LARGE:,} on a CPU, or faiss-cpu (the extra 'faiss')",
                stacklevel=2,
            )
        return CrystalMemory(self.buffer_size, params=self.params, anchor=anchors, **self._storage())

    def _report(self, learner: Learner) -> bool:
        return learner.error == "exact"

    def _refuse_other(self, memory: ReplayMemory, learner: Learner | None) -> None:
        if not isinstance(memory, CrystalMemory):
            raise ValueError(f"memory: wanted a CrystalMemory, got {type(memory).__name__}")
        if learner is not None:
            wanted = self._anchors(memory.params, learner)
            got = {name: tuple(anchor.shape[2:]) for name, anchor in memory.anchors.items()}
            if wanted != got:
                raise ValueError(f"memory: wanted the anchors {wanted} of this model, got {got}")

    @property
    def due(self) -> bool:
        """Whether it is time to consolidate: not before the first gradient step, when there is nothing to keep."""
        return self.memory is not None and self.memory.due and self.model._n_updates > 0

    def consolidate(self) -> Consolidation:
        """Let experiences crystallize or melt, as the attached model sees them now."""
        memory = self.held
        assert isinstance(memory, CrystalMemory)
        return consolidate(memory, self.evaluate)


class PrioritizedReplayBuffer(MemoryReplayBuffer):
    """Prioritized replay (Schaul et al. 2016) for SB3: `alpha`, `beta`, `is_steps`, `epsilon` of `PrioritizedMemory`.

    |δ| comes from the gradients: exact for SAC and TD3, at most 1 for DQN (as in the paper). Quantile losses do not
    tell it, so for TQC and QR-DQN every batch is evaluated once more, which costs a forward pass.
    """

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        beta: float = 0.4,
        is_steps: int | None = None,
        epsilon: float = 1e-6,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.priority: dict[str, Any] = {"alpha": alpha, "beta": beta, "is_steps": is_steps, "epsilon": epsilon}

    def _make(self, learner: Learner) -> ReplayMemory:
        return PrioritizedMemory(self.buffer_size, **self.priority, **self._storage())

    def _report(self, learner: Learner) -> bool:
        return learner.error != "none"

    def _refuse_other(self, memory: ReplayMemory, learner: Learner | None) -> None:
        if not isinstance(memory, PrioritizedMemory):
            raise ValueError(f"memory: wanted a PrioritizedMemory, got {type(memory).__name__}")

    def _before(self, batch: Batch, samples: ReplayBufferSamples) -> None:
        if self.learner is not None and self.learner.error == "none":
            with torch.no_grad():
                self.held.update(batch.index, self.learner.evaluate(samples).td_error)
