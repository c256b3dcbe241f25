"""SIGTERM: the same as Ctrl-C, but for the exit code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from levelprox.cli.exits import Exit


@dataclass
class Signalled:
    """Which signal came."""

    terminated: bool = False

    def meant(self, code: int) -> int:
        """The exit code of the signal that interrupted."""
        return Exit.TERMINATED if self.terminated and code == Exit.INTERRUPTED else code


@contextmanager
def sigterm_as_interrupt() -> Iterator[Signalled]:
    """Raise KeyboardInterrupt on SIGTERM, so that a fit keeps what it has; the handler before is put back."""
    state = Signalled()

    def terminate(number: int, frame: FrameType | None) -> None:
        state.terminated = True
        raise KeyboardInterrupt("terminated")

    if threading.current_thread() is not threading.main_thread():
        yield state
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield state
    finally:
        signal.signal(signal.SIGTERM, before)
