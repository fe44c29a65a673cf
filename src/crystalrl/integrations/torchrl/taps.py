"""Capture values that a loss computes, so that its networks need not run a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor


class Tap(NamedTuple):
    """A method of the loss, or of one of its networks, whose result is captured."""

    owner: Any
    method: str
    name: str
    """Key of the captured value."""
    accepts: Callable[..., bool]
    """Whether to capture a call, from its positional arguments. Only the first accepted call is captured."""
    read: Callable[[Any], Tensor]
    """Turns the method's result into the captured value."""


@contextmanager
def capturing(taps: list[Tap]) -> Iterator[dict[str, Tensor]]:
    """Values captured so far, by name. On exit the methods are as they were before."""
    captured: dict[str, Tensor] = {}
    before = [tap.owner.__dict__.get(tap.method) for tap in taps]
    for tap in taps:
        setattr(tap.owner, tap.method, _tapped(tap, getattr(tap.owner, tap.method), captured))
    try:
        yield captured
    finally:
        for tap, method in zip(taps, before, strict=True):
            delattr(tap.owner, tap.method)
            if method is not None:
                setattr(tap.owner, tap.method, method)


def _tapped(tap: Tap, method: Callable[..., Any], captured: dict[str, Tensor]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        result = method(*given, **named)
        if tap.name not in captured and tap.accepts(*given):
            captured[tap.name] = tap.read(result)
        return result

    return call
