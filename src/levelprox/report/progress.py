"""Progress of runs: a bar on a terminal where rich is installed, else lines of text."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

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


_ON_A_TERMINAL, _ELSEWHERE = 0.2, 1.0  # seconds between lines
_SILENCE, _LONG_SILENCE = 1.0, 10.0  # seconds without a word, on a terminal and elsewhere, after which a line says so

_SHOWN: list[Progress] = []  # the last one is on top


class Progress(ABC):
    """What is told of one run, or of many pieces of work."""

    @abstractmethod
    def step(self, record: Record | SubsetRecord, used: str = "") -> None:
        """A run has come so far; `used`: what is not zero, where that is known."""

    @abstractmethod
    def advance(self) -> None:
        """One more piece of work is done."""

    @abstractmethod
    def aside(self, text: str) -> None:
        """What is going on besides, until the next step."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal clean."""


@contextmanager
def showing(title: str, total: int | None = None, what: str = "", stream: TextIO | None = None) -> Iterator[Progress]:
    """Show progress until the block ends, however it ends.

    Parameters
    ----------
    title : str
        Who is at work.
    total : int, optional
        How many pieces of work there are; None for a run that tells of its steps.
    what : str
        What the pieces are called.
    stream : text stream, default=sys.stderr
    """
    progress = _rich_bar(title, total, what, stream) or Lines(title, total, what, stream)
    _SHOWN.append(progress)
    try:
        yield progress
    finally:
        _SHOWN.remove(progress)
        progress.close()


class Passes:
    """Tells of passes over a file: next to the progress that is shown, or in a line of its own.

    Parameters
    ----------
    title : str
        Who is at work.
    stream : text stream, default=sys.stderr
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.title, self.line = title, Line(stream)
        self.line.every = _ON_A_TERMINAL if is_terminal(self.line.stream) else _ELSEWHERE

    def __call__(self, done: int, total: int, what: str) -> None:
        """So many chunks of a pass are done."""
        text = f"{what}, chunk {done} of {total}"
        if _SHOWN:
            _SHOWN[-1].aside(text)
            return
        self.line.show(f"{self.title}  {text}")
        if done == total:
            self.line.close()


class Lines(Progress):
    """Progress in lines of text.

    Parameters
    ----------
    title, total, what, stream
        As in `showing`.
    """

    def __init__(self, title: str, total: int | None, what: str, stream: TextIO | None = None) -> None:
        self.title, self.total, self.what = title, total, what
        self.line = Line(stream)
        self.line.every = _ON_A_TERMINAL if is_terminal(self.line.stream) else _ELSEWHERE
        self.began, self.done = time.monotonic(), 0
        self.told = title
        self._lock, self._ended, self._shown = threading.Lock(), threading.Event(), 0
        self._silence = _SILENCE if is_terminal(self.line.stream) else _LONG_SILENCE
        threading.Thread(target=self._beat, name="levelprox-progress", daemon=True).start()

    def _beat(self) -> None:
        """Print a line if no step was reported for a while."""
        before = 0
        while not self._ended.wait(self._silence):
            if self._shown == before:
                self._show(f"{self.told}  (still at work, {time.monotonic() - self.began:.0f} s)")
            before = self._shown

    def _show(self, text: str) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._shown += 1
                self.line.show(text)

    def step(self, record: Record | SubsetRecord, used: str = "") -> None:
        self.told = f"{self.title}  {in_words(record, used)}"
        self._show(self.told)

    def aside(self, text: str) -> None:
        self._show(f"{self.told}  ({text})")

    def advance(self) -> None:
        self.done += 1
        spent = time.monotonic() - self.began
        left = spent * (self.total / self.done - 1) if self.total else 0.0
        self.told = f"{self.title}  {self.done} of {self.total} {self.what}  {spent:.1f} s" + (
            f"  about {left:.0f} s left" if left > 0 else ""
        )
        self._show(self.told)

    def close(self) -> None:
        with self._lock:
            self._ended.set()
            self.line.close()


class RichBar(Progress):
    """Progress as a bar that disappears in the end; a terminal that is gone is not written to again.

    Parameters
    ----------
    console : rich.console.Console
    title, total, what
        As in `showing`.
    """

    def __init__(self, console: Any, title: str, total: int | None, what: str) -> None:
        from rich import progress as rich  # an extra: only where progress is shown

        clock = [rich.TimeElapsedColumn(), *([] if total is None else [rich.TimeRemainingColumn()])]
        self.bar = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(bar_width=24),
            rich.TextColumn("{task.fields[told]}", markup=False),
            rich.TextColumn("{task.fields[besides]}", markup=False),
            *clock,
            console=console,
            transient=True,
        )
        self.what, self.total, self.done = what, total, 0
        self.task = self.bar.add_task(title, total=total, told="", besides="")
        self.bar.start()

    def step(self, record: Record | SubsetRecord, used: str = "") -> None:
        part = record.done if isinstance(record, SubsetRecord) else None
        self.bar.tasks[0].total = None if part is None else 1.0  # update() takes None for "as before"
        self._update(completed=part or 0.0, told=in_words(record, used), besides="")

    def aside(self, text: str) -> None:
        self._update(besides=text)

    def advance(self) -> None:
        self.done += 1
        self._update(completed=self.done, told=f"{self.done} of {self.total} {self.what}")

    def close(self) -> None:
        with suppress(Exception):  # whatever a terminal that is gone may raise
            self.bar.stop()

    def _update(self, **fields: Any) -> None:
        with suppress(Exception):
            self.bar.update(self.task, **fields)


def _rich_bar(title: str, total: int | None, what: str, stream: TextIO | None) -> RichBar | None:
    """A bar, where there is a terminal to draw it on, rich to draw it with, and no other live display."""
    if not is_terminal(sys.stderr if stream is None else stream):
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True) if stream is None else Console(file=stream)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    try:
        return RichBar(console, title, total, what)
    except Exception:  # rich's LiveError where there is another bar, or a terminal that is gone
        return None
