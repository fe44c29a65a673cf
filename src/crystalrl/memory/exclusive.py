"""Detects overlapping calls of one memory from two threads, at the cost of a function call."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter, signature
from threading import get_ident
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
Calls = dict[int, tuple[int, str]]
"""Key 0: thread and name of the call in progress; empty if there is none."""

BODY = """
def {name}({parameters}):
    calls, mine = self.calls, (get_ident(), {name!r})
    if calls and calls.get(0, mine)[0] == mine[0]:
        return method({arguments})
    if (other := calls.setdefault(0, mine)) is not mine:
        refuse({name!r}, other[1])
    try:
        return method({arguments})
    finally:
        del calls[0]
"""
"""Written out for each signature: forwarding `*args, **kwargs` takes four times as long."""


def exclusive(method: Method) -> Method:
    """The method raises RuntimeError, with nothing changed, while another thread is in an exclusive method of the same
    object, which has `calls`. A thread may call one from within another. After an interrupt between two lines, the
    thread itself may stay registered; it is not refused.
    """
    given = list(signature(method).parameters.values())
    defaults = {f"default_{p.name}": p.default for p in given if p.default is not Parameter.empty}
    parts = [f"{p.name}=default_{p.name}" if f"default_{p.name}" in defaults else p.name for p in given]
    keyword = [p.kind is Parameter.KEYWORD_ONLY for p in given]
    if any(keyword):
        parts.insert(keyword.index(True), "*")
    arguments = [f"{p.name}={p.name}" if named else p.name for p, named in zip(given, keyword, strict=True)]
    body = BODY.format(name=method.__name__, parameters=", ".join(parts), arguments=", ".join(arguments))
    names: dict[str, Any] = {"method": method, "get_ident": get_ident, "refuse": _refuse, **defaults}
    exec(body, names)
    guarded: Method = names[method.__name__]
    update_wrapper(guarded, method)
    return guarded


def _refuse(name: str, other: str) -> None:
    raise RuntimeError(
        f"{name}: wanted one thread at a time, got a call during `{other}` of another thread "
        "(a memory is not thread-safe: use a lock, or `Background` to consolidate in a thread)"
    )
