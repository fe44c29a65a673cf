"""CUDA graphs: a step that runs thousands of times is recorded once and replayed without the host."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch

BURN_IN = 12
"""Ordinary calls before the recording: they do all lazy initialisation, and the memory is no longer empty."""


class Captured:
    """Calls `step`; on CUDA, after a burn-in on a side stream, records it and from then on replays the recording.

    `step` must read and write only tensors that keep their storage, and must not depend on host state that changes
    between calls. The recording directly follows an ordinary call, so that occasional checks by the host (such as
    whether a memory is empty) have just been made. Recording executes nothing.
    """

    def __init__(self, step: Callable[[], None], device: torch.device, possible: bool = True) -> None:
        self.step = step
        self.records = possible and device.type == "cuda"
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(device) if self.records else None

    def __call__(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        elif not self.records:
            self.step()
        else:
            self.calls += 1
            self._warm()
            if self.calls > BURN_IN:
                self._record()

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # freeing another graph during a recording would invalidate it
        try:
            with torch.cuda.graph(graph):
                self.step()
        finally:
            gc.enable()
        self.graph = graph

    def _warm(self) -> None:
        assert self.stream is not None
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.step()
        torch.cuda.current_stream().wait_stream(self.stream)
