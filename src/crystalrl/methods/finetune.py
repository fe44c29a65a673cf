"""Fine-tuning: the memory is emptied when a task starts, and nothing protects the old ones. The lower reference."""

from __future__ import annotations

from dataclasses import dataclass

from crystalrl.methods.base import Method, Setup


@dataclass(frozen=True)
class FinetuneParams:
    """Fine-tuning has no settings."""


class Finetune(Method):
    """As in Continual World (Wołczyk et al. 2021), the memory holds the current task only."""

    boundaries = True
    clears = True

    def __init__(self, setup: Setup, params: FinetuneParams) -> None:
        pass
