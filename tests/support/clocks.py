"""Callbacks that take time, so that a limit ends a fit however fast the fit is."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(seconds: float) -> Callable[..., None]:
    """Return a callback that returns once so many seconds have passed since this call.

    Time is that of `time.monotonic`: processor time in tests with the fixture `processor_clock`.
    """
    end = time.monotonic() + seconds

    def callback(*_: object) -> None:
        while time.monotonic() < end:
            pass

    return callback


def each(seconds: float, callback: Callable[..., object] | None = None) -> Callable[..., object]:
    """Return a callback that takes so many seconds each time, and then calls the given one."""

    def slow(*arguments: object) -> object:
        until(seconds)()
        return None if callback is None else callback(*arguments)

    return slow
