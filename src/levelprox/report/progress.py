"""How a run is doing, in a line: `callback=ProgressLine()` for `solve` and for `best_subset`."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.plurals import counted
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

Vector = NDArray[np.float64]
#: What phases of a search are called, where that is not their name.
_PHASES = {"exchanges": "swaps"}


def in_words(record: Record | SubsetRecord, used: str = "") -> str:
    """What a record says.

    Parameters
    ----------
    record : Record or SubsetRecord
    used : str
        What is not zero, which a `Record` does not know.
    """
    if isinstance(record, SubsetRecord):
        done = "" if record.done is None else f" {100 * record.done:.0f} %"
        return (
            f"{_PHASES.get(record.phase, record.phase)}{done}  loss {record.psi:.6f}  "
            f"{counted(record.n_features, 'feature')}  {counted(record.n_refits, 'refit')}  {record.seconds:.2f} s"
        )
    return (
        f"step {record.k:4d}  loss {record.psi:.6f}  g {record.g:.4f} <= {record.eta_k:.4f}  "
        f"KKT {record.kkt:.1e}  {used}{'  ' if used else ''}{record.seconds:.2f} s"
    )


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; one that is closed or broken is none."""
    try:
        return stream is not None and stream.isatty()
    except Exception:  # whatever a stream may raise
        return False


class Line:
    """A line of text that changes: rewritten in place on a terminal, else one line after another.

    A stream that cannot be written to, because it is closed, full or broken, is not written to again: no run ends
    because its progress cannot be shown.

    Parameters
    ----------
    stream : text stream, default=sys.stderr
        None where there is none (sys.stderr of a program without a console): then nothing is shown.
    every : float, default=0.2
        Seconds between lines; the first and, on `close`, the last are always shown.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 0.2) -> None:
        self.stream: TextIO | None = sys.stderr if stream is None else stream
        self.every = every
        self._next = 0.0
        self._withheld: str | None = None
        self._open = False  # whether there is a line on the terminal to be ended

    def show(self, text: str, at_once: bool = False) -> None:
        """Show the text, unless the last one was shown just now; `at_once` in any case."""
        now = time.monotonic()
        if not at_once and now < self._next:
            self._withheld = text
            return
        self._next = now + self.every
        self._write(text)

    def close(self) -> None:
        """Show what was withheld, and end the line."""
        if self._withheld is not None:
            self._write(self._withheld)
        if self._open:
            self._put("\n")
            self._open = False

    def _write(self, text: str) -> None:
        self._withheld = None
        if is_terminal(self.stream):
            self._open = True
            text = text[: shutil.get_terminal_size().columns - 1]  # one that wraps is not rewritten by \r
            self._put(f"\r{text}\x1b[K")
        else:
            self._put(f"{text}\n")

    def _put(self, text: str) -> None:
        if self.stream is None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except Exception:  # whatever a stream may raise
            self.stream = None


class ProgressLine(Line):
    """Prints step, ψ, g, KKT residual and nonzeros, or phase, ψ, features and refits of a search for features.

    Parameters
    ----------
    stream : text stream, default=sys.stderr
    every : float, default=0.2
        Seconds between lines; the first step is always shown. On a terminal the line is rewritten in place.
    """

    def __call__(self, record: Record | SubsetRecord, x: Vector | None = None) -> None:
        """Show one record."""
        used = "" if x is None else f"{np.count_nonzero(x)} nonzero"
        self._told = in_words(record, used)
        self.show(self._told, at_once=isinstance(record, Record) and record.k <= 1)

    def meanwhile(self, text: str) -> None:
        """Show what is done between two steps."""
        self.show(f"{getattr(self, '_told', '')}  ({text})".lstrip())
