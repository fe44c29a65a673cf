"""Detects calls of one memory from two threads at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock, get_ident
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Calls:
    """The call that a memory is busy with. Invariant: `owner` and `name` describe it while `lock` is held."""

    __slots__ = ("lock", "name", "owner")

    def __init__(self) -> None:
        self.lock, self.owner, self.name = Lock(), 0, ""


class Guarded(Protocol):
    """An object whose methods may be `exclusive`."""

    @property
    def calls(self) -> Calls: ...


S = TypeVar("S", bound=Guarded)
P = ParamSpec("P")
R = TypeVar("R")


def exclusive(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method raises RuntimeError, with nothing changed, if another thread is in an exclusive method of the same
    object. A thread may call one from within another.
    """
    name = method.__name__

    @wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = self.calls
        if not calls.lock.acquire(False):
            if calls.owner == get_ident():
                return method(self, *args, **kwargs)
            raise RuntimeError(
                f"{name}: wanted one thread at a time, got a call during `{calls.name}` of another thread "
                "(a memory is not thread-safe: use a lock, or `Background` to consolidate in a thread)"
            )
        calls.owner, calls.name = get_ident(), name
        try:
            return method(self, *args, **kwargs)
        finally:
            calls.owner = 0
            calls.lock.release()

    return guarded
