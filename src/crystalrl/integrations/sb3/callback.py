"""The callback that consolidates a memory while Stable-Baselines3 learns."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

from crystalrl.integrations.sb3.buffers import CrystalReplayBuffer, MemoryReplayBuffer
from crystalrl.integrations.sb3.checks import NO_HER
from crystalrl.memory import Consolidation
from crystalrl.memory.crystal.metrics import tag

log = logging.getLogger(__name__)


class Consolidate(BaseCallback):
    """Attaches the model's buffer to the model, consolidates a crystal memory when it is due, logs it as `memory/…`.

    With `tasks` (name → environment) the policy is also evaluated on each of them every `evaluate_every` steps, over
    `episodes` episodes, and logged as `tasks/…`. Each warning of a consolidation's report is given once; each note is
    logged once by Python's `logging`, at level INFO.
    """

    def __init__(
        self,
        tasks: Mapping[str, Any] | None = None,
        *,
        evaluate_every: int = 10_000,
        episodes: int = 5,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if evaluate_every < 1 or episodes < 1:
            raise ValueError(f"evaluate_every, episodes: wanted numbers ≥ 1, got {evaluate_every} and {episodes}")
        self.tasks, self.evaluate_every, self.episodes = dict(tasks or {}), evaluate_every, episodes
        self.report: Consolidation | None = None
        """Report of the last consolidation."""
        self.scores: list[tuple[int, dict[str, float]]] = []
        """(steps, mean return by task) of each evaluation."""
        self.told: set[str] = set()
        """Warnings and notes given so far."""

    def _init_callback(self) -> None:
        buffer = getattr(self.model, "replay_buffer", None)
        if not isinstance(buffer, MemoryReplayBuffer):
            why = f" ({NO_HER})" if type(buffer).__name__ == "HerReplayBuffer" else ""
            wanted = "replay_buffer_class=CrystalReplayBuffer or PrioritizedReplayBuffer"
            raise TypeError(f"Consolidate: wanted a model with {wanted}, got {type(buffer).__name__}{why}")
        buffer.attach(self.model)
        self._next_evaluation = self.num_timesteps + self.evaluate_every

    def _on_step(self) -> bool:
        buffer: Any = self.model.replay_buffer  # type: ignore[attr-defined]
        if isinstance(buffer, CrystalReplayBuffer) and buffer.due:
            self.report = buffer.consolidate()
            self._log(self.report)
        if self.tasks and self.num_timesteps >= self._next_evaluation:
            self._next_evaluation += self.evaluate_every
            self.evaluate()
        return True

    def _log(self, report: Consolidation) -> None:
        for name, value in report.scalars().items():
            if not math.isnan(value):
                self.logger.record(tag(name), value)
        for text in report.warnings:
            if text not in self.told:
                warnings.warn(f"memory: {text}", stacklevel=3)
        for text in report.notes:
            if text not in self.told:
                log.info("memory: %s", text)
        self.told |= {*report.warnings, *report.notes}

    def evaluate(self) -> dict[str, float]:
        """Current mean return of the deterministic policy on each task; also logged and appended to `scores`."""
        scores = {}
        for name, env in self.tasks.items():
            if isinstance(env, VecNormalize):
                sync_envs_normalization(self.training_env, env)
            mean, _ = evaluate_policy(self.model, env, self.episodes, deterministic=True, warn=False)
            scores[name] = float(mean)  # type: ignore[arg-type]
            self.logger.record(f"tasks/{name}", scores[name])
        self.scores.append((self.num_timesteps, scores))
        return scores
