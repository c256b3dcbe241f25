"""SIGTERM, where there is something to lose: as Ctrl-C first, so that what is there is kept, then as it was meant."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from levelprox.exceptions import CheckpointWarning, warn


class Termination:
    """Until the block ends, SIGTERM interrupts what runs in it; it is sent once more afterwards, and then ends all.

    A program that handles SIGTERM itself is left alone, and so is one that runs elsewhere than in its main thread.

    Parameters
    ----------
    path : path-like
        Where the state is kept, for the words that are left behind.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name, self.path, self.asked = os.fspath(path), Path(os.path.abspath(path)), False
        self.before: Any = None

    def __enter__(self) -> Termination:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self.before = signal.signal(signal.SIGTERM, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.before is None:
            return
        signal.signal(signal.SIGTERM, self.before)
        if self.asked:
            try:
                kept = (
                    f"The state is kept: resume={self.name!r} goes on" if self.path.exists() else "Nothing was done yet"
                )
                warn(f"Terminated. {kept}", CheckpointWarning)
            finally:  # also where warnings are errors
                os.kill(os.getpid(), signal.SIGTERM)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        """A second one does not wait."""
        if self.asked:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        self.asked = True
        raise KeyboardInterrupt
