"""Checks for options and models that the buffers for Stable-Baselines3 do not support."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from crystalrl.integrations.sb3.adapters import Adapter
from crystalrl.memory.neighbours.index import have_faiss
from crystalrl.params import CrystalParams

LARGE = 20_000
"""Slots up to which a consolidation takes seconds on a CPU without FAISS."""
HER_ONLY = ("n_sampled_goal", "goal_selection_strategy", "copy_info_dict")
NO_HER = (
    "goal relabelling (HerReplayBuffer) rewrites stored experiences; it cannot be combined with a memory that keeps "
    "them unchanged"
)


def refuse_options(kind: type, optimize_memory_usage: bool, unknown: Mapping[str, Any]) -> None:
    """Raise for options of SB3's own buffers that do not exist here."""
    if optimize_memory_usage:
        raise ValueError(
            "optimize_memory_usage: wanted False, got True: it keeps next observations in the following slot, but here "
            "experiences are not stored in order of arrival"
        )
    if any(name in HER_ONLY for name in unknown):
        raise ValueError(f"{', '.join(unknown)}: {NO_HER}")
    if unknown:
        raise TypeError(f"{kind.__name__}: got unknown arguments {', '.join(unknown)}")


def silence_n_steps() -> None:
    """Suppress SB3's warning that `n_steps` is ignored by a custom buffer: ours take it from the model."""
    ours = r"`n_steps=\d+` is ignored because a custom `replay_buffer_class` \(`(Crystal|Prioritized)ReplayBuffer`\)"
    warnings.filterwarnings("ignore", message=ours)


def refuse_model(model: Any, adapter: Adapter, n_steps: int, gamma: float) -> None:
    """Raise if hooks would not work on a model, or its n-step returns are not those of the buffer."""
    if getattr(adapter.critic, "_compiled_call_impl", None) or hasattr(adapter.critic, "_orig_mod"):
        raise ValueError("critic: wanted a plain module, got a compiled one, which may bypass the hooks")
    if model.n_steps > 1 and n_steps != model.n_steps:
        wanted = f"replay_buffer_kwargs={{'n_steps': {model.n_steps}, 'gamma': {model.gamma}}}"
        raise ValueError(f"n_steps: wanted {wanted}, as the model has it, got {n_steps}")
    if n_steps > 1 and gamma != model.gamma:
        raise ValueError(f"gamma: wanted the model's {model.gamma} for n-step returns, got {gamma}")


def warn_if_slow(buffer_size: int, params: CrystalParams) -> None:
    """Warn if a consolidation would take minutes."""
    compares = params.interference != "none" or params.backup
    if buffer_size > LARGE and compares and not have_faiss():
        warnings.warn(
            f"buffer_size: a consolidation compares each stored state with all others, which takes minutes for "
            f"{buffer_size:,}; wanted at most {LARGE:,} on a CPU, or faiss-cpu (the extra 'faiss')",
            stacklevel=3,
        )
