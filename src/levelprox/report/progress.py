"""Progress of runs: a bar on a terminal if rich is installed, else lines of text."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import numpy as np

from levelprox._typing import Vector
from levelprox.exceptions import counted
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

#: Names of the phases of a search that differ from their keys.
_PHASES = {"exchanges": "swaps"}


def in_words(record: Record | SubsetRecord, used: str = "") -> str:
    """Return a record as text.

    Parameters
    ----------
    record : Record or SubsetRecord
    used : str
        Text about the nonzero coefficients, which a `Record` does not have.
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
    """Return whether a stream is a terminal; False if it is closed or broken."""
    try:
        return stream is not None and stream.isatty()
    except Exception:  # a stream may raise anything
        return False


class Line:
    """A line of text that is rewritten on a terminal; on other streams, one line after another.

    A stream that cannot be written to (closed, full or broken) is not written to again, so that a run never fails
    because of its progress.

    Parameters
    ----------
    stream : text stream, default=sys.stderr
        None (sys.stderr of a program without a console) shows nothing.
    every : float, optional
        Seconds between lines; the first and, on `close`, the last are always shown. By default 0.2 on a terminal, 1 on
        other streams.
    """

    def __init__(self, stream: TextIO | None = None, every: float | None = None) -> None:
        self.stream: TextIO | None = sys.stderr if stream is None else stream
        paced = _TERMINAL_SECONDS if is_terminal(self.stream) else _OTHER_SECONDS
        self.every = paced if every is None else every
        self._next = 0.0
        self._withheld: str | None = None
        self._open = False  # whether a line on the terminal has not ended yet

    def show(self, text: str, at_once: bool = False) -> None:
        """Show the text, unless another was shown less than `every` seconds ago; with `at_once` always."""
        now = time.monotonic()
        if not at_once and now < self._next:
            self._withheld = text
            return
        self._next = now + self.every
        self._write(text)

    def close(self) -> None:
        """Show the last text, if it was withheld, and end the line."""
        if self._withheld is not None:
            self._write(self._withheld)
        if self._open:
            self._put("\n")
            self._open = False

    def _write(self, text: str) -> None:
        self._withheld = None
        if is_terminal(self.stream):
            self._open = True
            text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be rewritten by \r
            self._put(f"\r{text}\x1b[K")
        else:
            self._put(f"{text}\n")

    def _put(self, text: str) -> None:
        if self.stream is None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except Exception:  # a stream may raise anything
            self.stream = None


class ProgressLine(Line):
    """Print the progress of a run: the callback for `solve` and `best_subset`.

    A line has the step, loss, constraint value, KKT residual and nonzeros of a solver, or the phase, loss, features and
    refits of a feature search.

    Parameters
    ----------
    stream : text stream, default=sys.stderr
    every : float, default=0.2
        Seconds between lines; the first step is always shown. On a terminal the line is rewritten in place.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from levelprox import LinearModel, best_subset, losses
    >>> from levelprox.report import ProgressLine
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> stream = io.StringIO()
    >>> model = LinearModel(X, X[:, 0] - X[:, 2], losses.Squared())
    >>> result = best_subset(model, 2, callback=ProgressLine(stream, every=0))
    >>> "2 features" in stream.getvalue()
    True
    """

    def __init__(self, stream: TextIO | None = None, every: float = 0.2) -> None:
        super().__init__(stream, every)

    def __call__(self, record: Record | SubsetRecord, x: Vector | None = None) -> None:
        """Show one record."""
        used = "" if x is None else f"{np.count_nonzero(x)} nonzero"
        self._last_text = in_words(record, used)
        self.show(self._last_text, at_once=isinstance(record, Record) and record.k <= 1)

    def meanwhile(self, text: str) -> None:
        """Show what is done between two steps."""
        self.show(f"{getattr(self, '_last_text', '')}  ({text})".lstrip())


_TERMINAL_SECONDS, _OTHER_SECONDS = 0.2, 1.0  # between lines, on a terminal and on other streams
_TERMINAL_HEARTBEAT_SECONDS, _OTHER_HEARTBEAT_SECONDS = 1.0, 10.0  # without a step, after which a line is printed

_SHOWN: list[Progress] = []  # nested; the last one is the innermost


@contextmanager
def showing(title: str, total: int | None = None, what: str = "", stream: TextIO | None = None) -> Iterator[Progress]:
    """Show progress until the block ends.

    Parameters
    ----------
    title : str
        Name of the run.
    total : int, optional
        Number of work items; None for a run that reports steps.
    what : str
        Name of the work items, in the plural.
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
    """Progress of passes over a file: next to the progress that is shown, or in its own line.

    Parameters
    ----------
    title : str
        Name of the run.
    stream : text stream, default=sys.stderr
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.title, self.line = title, Line(stream)

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show how many chunks of a pass are done."""
        text = f"{what}, chunk {done} of {total}"
        if _SHOWN:
            _SHOWN[-1].aside(text)
            return
        self.line.show(f"{self.title}  {text}")
        if done == total:
            self.line.close()


class Lines:
    """Progress in lines of text.

    Parameters
    ----------
    title, total, what, stream
        As in `showing`.
    """

    def __init__(self, title: str, total: int | None, what: str, stream: TextIO | None = None) -> None:
        self.title, self.total, self.what = title, total, what
        self.line, self.text = Line(stream), title
        self.began, self.done = time.monotonic(), 0
        self._lock, self._ended, self._shown = threading.Lock(), threading.Event(), 0
        threading.Thread(target=self._beat, name="levelprox-progress", daemon=True).start()

    def _beat(self) -> None:
        """Print a line if no step was reported for a while."""
        before, on_terminal = 0, is_terminal(self.line.stream)
        while not self._ended.wait(_TERMINAL_HEARTBEAT_SECONDS if on_terminal else _OTHER_HEARTBEAT_SECONDS):
            if self._shown == before:
                self._show(f"{self.text}  (still running, {time.monotonic() - self.began:.0f} s)")
            before = self._shown

    def _show(self, text: str) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._shown += 1
                self.line.show(text)

    def step(self, record: Record | SubsetRecord, used: str = "") -> None:
        """Show a step of a run; `used` is text about the nonzero coefficients, if known."""
        self.text = f"{self.title}  {in_words(record, used)}"
        self._show(self.text)

    def aside(self, text: str) -> None:
        """Show what happens between two steps."""
        self._show(f"{self.text}  ({text})")

    def advance(self) -> None:
        """Count one more finished work item."""
        self.done += 1
        spent = time.monotonic() - self.began
        left = spent * (self.total / self.done - 1) if self.total else 0.0
        about = f"  about {left:.0f} s left" if left > 0 else ""
        self.text = f"{self.title}  {self.done} of {self.total} {self.what}  {spent:.1f} s{about}"
        self._show(self.text)

    def close(self) -> None:
        """End the display."""
        with self._lock:
            self._ended.set()
            self.line.close()


class RichBar:
    """Progress as a bar that disappears at the end.

    Parameters
    ----------
    console : rich.console.Console
    title, total, what
        As in `showing`.
    """

    def __init__(self, console: Any, title: str, total: int | None, what: str) -> None:
        from rich import progress as rich  # an optional dependency

        columns = [rich.TextColumn("{task.description}", markup=False), rich.BarColumn(bar_width=24)]
        columns += [rich.TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("state", "aside")]
        columns += [rich.TimeElapsedColumn(), *([] if total is None else [rich.TimeRemainingColumn()])]
        self.bar = rich.Progress(*columns, console=console, transient=True)
        self.what, self.total, self.done = what, total, 0
        self.task = self.bar.add_task(title, total=total, state="", aside="")
        self.bar.start()

    def step(self, record: Record | SubsetRecord, used: str = "") -> None:
        """Show a step of a run; `used` is text about the nonzero coefficients, if known."""
        part = record.done if isinstance(record, SubsetRecord) else None
        self.bar.tasks[0].total = None if part is None else 1.0  # update() ignores None
        self._update(completed=part or 0.0, state=in_words(record, used), aside="")

    def aside(self, text: str) -> None:
        """Show what happens between two steps."""
        self._update(aside=text)

    def advance(self) -> None:
        """Count one more finished work item."""
        self.done += 1
        self._update(completed=self.done, state=f"{self.done} of {self.total} {self.what}")

    def close(self) -> None:
        """End the display."""
        with suppress(Exception):  # a closed terminal may raise anything
            self.bar.stop()

    def _update(self, **fields: Any) -> None:
        with suppress(Exception):
            self.bar.update(self.task, **fields)


def _rich_bar(title: str, total: int | None, what: str, stream: TextIO | None) -> RichBar | None:
    """Return a bar if there is a terminal, rich is installed, and no other live display exists."""
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
    except Exception:  # LiveError of rich if there is another bar, or a closed terminal
        return None


#: Progress of one run, or of a number of work items.
Progress = Lines | RichBar
