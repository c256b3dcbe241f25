"""Progress while something is done: a bar on a terminal where rich is installed, else a line of text."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from levelprox.report.progress import Line, in_words, is_terminal
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

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
