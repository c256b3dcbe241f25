"""SIGTERM during a run with a checkpoint: first an interrupt, so that the state is written, then the end."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from levelprox.exceptions import CheckpointWarning, warn


class Termination:
    """Until the block ends, SIGTERM interrupts what runs in it; it is sent again afterwards, and ends the process.

    Nothing is changed if the program handles SIGTERM itself, or if this is not the main thread.

    Parameters
    ----------
    path : path-like
        The checkpoint, for the warning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name, self.path, self.received = os.fspath(path), Path(os.path.abspath(path)), False
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
        if self.received:
            try:
                kept = (
                    f"The state is kept: resume={self.name!r} goes on" if self.path.exists() else "Nothing was done yet"
                )
                warn(f"Terminated. {kept}", CheckpointWarning)
            finally:  # also where warnings are errors
                os.kill(os.getpid(), signal.SIGTERM)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        """Interrupt; a second signal ends the process at once."""
        if self.received:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        self.received = True
        raise KeyboardInterrupt
