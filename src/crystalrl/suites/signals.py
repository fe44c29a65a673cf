"""Words in shared memory that a process waits for. Like `worker`, this module does not load PyTorch.

On Linux a waiting process sleeps in the kernel (futex) and is woken by whoever changes the word; elsewhere it polls.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
import time
from typing import Any

from numpy.typing import NDArray

_CALLS = {"x86_64": 202, "aarch64": 98}
"""Number of the system call `futex` by processor."""
_WAIT, _WAKE = 0, 1
PAUSE = 5e-5
"""Polling interval in seconds where there is no futex."""
_fence = threading.Lock()


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _futex() -> Any:
    """The system call, or None."""
    number = _CALLS.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None
    if number is None:
        return None
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long

    def call(word: int, operation: int, value: int, limit: _Time | None) -> None:
        given = None if limit is None else ctypes.byref(limit)
        syscall(ctypes.c_long(number), ctypes.c_void_p(word), operation, value, given, None, 0)

    return call


_CALL = _futex()


class Word:
    """One element of a shared array int32[n]. Invariant: what was written before `set` is seen after `wait`."""

    def __init__(self, words: NDArray[Any], at: int) -> None:
        self.words, self.at = words, at
        self._place = words.ctypes.data + at * words.itemsize

    def get(self) -> int:
        return int(self.words[self.at])

    def set(self, value: int) -> None:
        """Change the word and wake whoever waits for it."""
        with _fence:  # orders the writes before this one
            self.words[self.at] = value
        if _CALL is not None:
            _CALL(self._place, _WAKE, 2**31 - 1, None)

    def wait(self, old: int, seconds: float) -> bool:
        """Wait until the word is not `old`; False if it still is after this time."""
        until = time.monotonic() + seconds
        while self.get() == old:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if _CALL is None:
                time.sleep(PAUSE)
            else:
                whole = int(left)
                _CALL(self._place, _WAIT, old, _Time(whole, int((left - whole) * 1e9)))
        with _fence:  # orders the reads after this one
            return True
