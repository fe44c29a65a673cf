"""Random numbers of a run that is only looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def private_randomness(device: torch.device) -> Iterator[None]:
    """Draws inside leave the run's random numbers as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
