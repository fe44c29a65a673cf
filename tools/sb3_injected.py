"""A pytest plugin: every off-policy model of Stable-Baselines3 gets one of our buffers instead of SB3's own.

`tools.peer_suites` runs it. `INJECTED_BUFFER` is the name of a class of `crystalrl.integrations.sb3`, or empty: then
SB3's own buffers stay. The outcome of each test that built an off-policy model is written to `INJECTED_RESULTS`, one
JSON object per line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from crystalrl.integrations import sb3

REFUSALS = (
    "optimize_memory_usage: wanted False",
    "goal relabelling",
    "critic: wanted a plain module",
    "use_sde: wanted False",
    "no log σ per state",
)
"""Parts of the messages with which our buffers refuse what docs/integrations/sb3.md says does not work."""
OWN = (None, ReplayBuffer, DictReplayBuffer, NStepReplayBuffer)
REPLACEMENT = getattr(sb3, os.environ.get("INJECTED_BUFFER", ""), None)
RESULTS = Path(os.environ["INJECTED_RESULTS"]) if "INJECTED_RESULTS" in os.environ else None
setup_model, init_callback = OffPolicyAlgorithm._setup_model, BaseAlgorithm._init_callback


class Seen:
    """Whether the current test has built an off-policy model with a buffer that is replaced."""

    concerned = False


def inject(model: Any) -> None:
    """`_setup_model`, with our buffer where SB3 would build its own."""
    if model.replay_buffer_class in OWN:
        Seen.concerned = True
        if REPLACEMENT is not None:
            model.replay_buffer_class = REPLACEMENT
            if model.n_steps > 1:
                model.replay_buffer_kwargs |= {"n_steps": model.n_steps, "gamma": model.gamma}
    setup_model(model)


def consolidating(model: Any, callback: Any, progress_bar: bool = False) -> Any:
    """`_init_callback`, with a `Consolidate` in addition to the test's own callback."""
    if REPLACEMENT is not None and isinstance(getattr(model, "replay_buffer", None), REPLACEMENT):
        given = callback if isinstance(callback, list) else [] if callback is None else [callback]
        callback = CallbackList([*given, sb3.Consolidate()]) if all(map(is_callback, given)) else callback
        if not isinstance(callback, CallbackList):
            model.replay_buffer.attach(model)
    return init_callback(model, callback, progress_bar)


def is_callback(callback: Any) -> bool:
    return hasattr(callback, "init_callback")


def pytest_configure() -> None:
    OffPolicyAlgorithm._setup_model = inject  # type: ignore[method-assign]
    BaseAlgorithm._init_callback = consolidating  # type: ignore[method-assign]


def pytest_runtest_setup() -> None:
    Seen.concerned = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    report: Any = yield
    if RESULTS is not None and call.when == "call" and Seen.concerned and report.outcome != "skipped":
        with RESULTS.open("a") as lines:
            lines.write(json.dumps({"test": item.nodeid, **outcome(report, call.excinfo)}) + "\n")
    return report


def outcome(report: Any, raised: Any) -> dict[str, str]:
    """Passed, refused or failed, and the error's last line."""
    if raised is None:
        return {"outcome": report.outcome}
    text = f"{raised.typename}: {raised.value}"
    refused = any(part in text for part in REFUSALS)
    return {"outcome": "refused" if refused else "failed", "error": text[:300]}
