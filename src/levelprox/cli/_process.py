"""The process of a command: exit codes and errors, standard streams, signals, threads and memory."""

from __future__ import annotations

import codecs
import ctypes
import errno
import io
import os
import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelprox.exceptions import Parameter


class Exit(IntEnum):
    """Exit codes. Append-only: a code never changes its meaning. From 64 on they are those of sysexits.h."""

    OK = 0
    USAGE = 2  #: the command was not understood
    INACCURATE = 3  #: there is a model, but not to the tolerance asked for
    FAILED = 4  #: a numerical failure, a diverging fit, or a certificate that does not hold
    DATA = 65  #: a file is not what it should be, or its data cannot be used
    NO_INPUT = 66  #: a file to be read is not there, or may not be read
    BUG = 70  #: an error in levelprox itself; the traceback is in a file
    CANNOT_CREATE = 73  #: a file to be written cannot be, or is there already
    IO = 74  #: reading or writing failed on the way: a full disk, no memory
    TRY_AGAIN = (
        75  #: another process holds the checkpoint, a cluster does not answer, or a file changed while it was read
    )
    INTERRUPTED = 130  #: Ctrl-C
    CLOSED = 141  #: whoever read the output has gone
    TERMINATED = 143  #: SIGTERM


class CommandError(Exception):
    """What ends a command, in one line.

    Parameters
    ----------
    message : str
    code : Exit
    """

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """Options that do not go together."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


#: Errors of writing that come on the way, not at the beginning.
_ON_THE_WAY = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

#: Statuses of a fit that leave a usable model which is not to tolerance: inaccurate, max_iter, time_limit, stalled.
_SHORT = (1, 2, 3, 6)
_OF_STATUS = {0: Exit.OK, 5: Exit.OK, 4: Exit.INTERRUPTED, 10: Exit.DATA, 13: Exit.IO}


def exit_code_of_status(status: int, accept_inaccurate: bool = False) -> Exit:
    """The exit code of a fit that ended with this `Status`."""
    if status in _SHORT:
        return Exit.OK if accept_inaccurate else Exit.INACCURATE
    return _OF_STATUS.get(int(status), Exit.FAILED)


def exit_code_of_error(error: BaseException) -> Exit:
    """The exit code of an error; `Exit.BUG` for those that nobody has foreseen."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, MemoryError):
        return Exit.IO
    if isinstance(error, ImportError):
        return Exit.USAGE if "pip install" in str(error) else Exit.BUG
    return _of_levelprox(error)


def exit_code_of_os_error(error: OSError, otherwise: Exit) -> Exit:
    """A full disk or the like is one thing; that a file cannot be opened at all another."""
    return Exit.IO if error.errno in _ON_THE_WAY else otherwise


def _of_levelprox(error: BaseException) -> Exit:
    if "levelprox.exceptions" not in sys.modules:  # which would have to raise it
        return Exit.BUG
    from levelprox import exceptions as errors

    if isinstance(error, errors.CheckpointLockedError | errors.BackendError):
        return Exit.TRY_AGAIN
    if isinstance(error, errors.CheckpointError):
        cause = error.__cause__
        return exit_code_of_os_error(cause, Exit.CANNOT_CREATE) if isinstance(cause, OSError) else Exit.DATA
    if isinstance(error, errors.InvalidInputError):
        return Exit.DATA
    return Exit.FAILED if isinstance(error, errors.NumericalError) else Exit.BUG


#: For streams whose encoding has no Greek.
_IN_ASCII = {"ψ": "psi", "η": "eta", "φ": "phi", "γ": "gamma", "≤": "<=", "≥": ">=", "·": "*", "×": "x", "−": "-"}
_IN_ASCII |= {"…": "...", "—": "-", "–": "-", "’": "'", "→": "->", "²": "^2", "Σ": "sum", "∞": "inf"}
_HANDLER = "levelprox"
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)

_END = r"(?![\w/=-]|\.\w)"  # of a word that is no part of another, nor of a file's name

#: What Python calls it, and what it is here; names of files that look like it are let be.
_IN_SHELL = [
    (re.compile(rf"(?<![\w./'\"-]){words}"), option)
    for words, option in (
        ("zero_based=True", "--zero-based"),
        ("standardize=True", "--standardize"),
        ("standardize=False", "--no-standardize"),
        (r"resume=(?:True|'[^']*'|\"[^\"]*\")", "--resume"),
        (r"time_limit=(?=\d)", "--time-limit "),
        (r"max_iter=(?=\d)", "--max-iter "),
        (r"n_features=(?=\d)", "--features "),
        (r"criterion='(\w+)'", r"--criterion \1"),
        (r"ridge=(?=\d)", "--ridge "),
        (r"feature_weight" + _END, "--feature-weight"),
        (r"feature_cost" + _END, "--feature-cost"),
        (r"class_weight" + _END, "--class-weight"),
        (r"one_standard_error" + _END, "--one-standard-error"),
        (r"time_limit" + _END, "--time-limit"),
        (r"max_iter" + _END, "--max-iter"),
        (r"n_features" + _END, "--features"),
    )
]
_ATTRIBUTE = re.compile(r" \(cv_results_\[[^]]*\]\)")


def in_shell_words(text: str) -> str:
    """The words of the library, as a message of the command line has them."""
    text = _ATTRIBUTE.sub("", text)
    for words, option in _IN_SHELL:
        text = words.sub(option, text)
    return text


def prepare() -> None:
    """Let no character end a command, whatever the encoding of the streams."""
    codecs.register_error(_HANDLER, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(one) or _escaped(one) for one in part), error.end


def printable(text: object) -> str:
    """The text with control characters, and bytes that are no text, as escapes."""
    return "".join(one if one.isprintable() else _escaped(one) for one in str(text))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def print_notice(text: str) -> None:
    """A line on standard error."""
    with suppress(BrokenPipeError, ValueError):  # nobody listens, or there is no standard error
        print(printable(text), file=sys.stderr, flush=True)


def print_error(text: object) -> None:
    """An error, in one line."""
    print_notice(f"levelprox: error: {in_shell_words(' '.join(str(text).split(chr(10))))}")


def message_of(error: BaseException) -> str:
    """Return the message of an error, its hint in the options of the command line."""
    render = getattr(error, "render", None)
    return str(error if render is None else render(as_option)) or type(error).__name__


def as_option(parameter: Parameter) -> str:
    """Return a parameter as an option of the command line, with its value."""
    option, value = f"--{parameter.name.replace('_', '-')}", parameter.value
    if value is ... or value is True:
        return option
    if value is False:
        return f"--no-{option[2:]}"
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{option} {shlex.quote(str(one))}" for one in values)


@contextmanager
def printed_warnings(quiet: bool) -> Iterator[list[str]]:
    """Show warnings as lines, each text once, and keep them; those about code, not data, are not for users."""
    seen: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = in_shell_words(" ".join(str(message).split()))
        if text not in seen:
            seen.append(text)
            if not quiet:
                print_notice(f"levelprox: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for about_code in _ABOUT_CODE:
            warnings.simplefilter("ignore", about_code)
        warnings.showwarning = show
        yield seen


def discard_stdout() -> None:
    """Let Python's own last flush go nowhere, after a flush has failed."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@dataclass
class SignalState:
    """Which signal came."""

    terminated: bool = False

    def exit_code(self, code: int) -> int:
        """The exit code of the signal that interrupted."""
        return Exit.TERMINATED if self.terminated and code == Exit.INTERRUPTED else code


@contextmanager
def sigterm_as_interrupt() -> Iterator[SignalState]:
    """Raise KeyboardInterrupt on SIGTERM, so that a fit keeps what it has; the handler before is put back."""
    state = SignalState()

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


@contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Limit the threads of levelprox, of what it calls, and of the reader of tables; None leaves them alone."""
    if threads is None:
        yield
        return
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    from threadpoolctl import threadpool_limits

    from levelprox import _kernels  # noqa: F401  # its threads are limited only once it is there

    with threadpool_limits(threads):
        yield


_MMAP_THRESHOLD, _LARGE = -3, 2**21  # of glibc's mallopt; bytes


def return_large_arrays() -> None:
    """Have arrays above a few megabytes returned to the system when they are freed.

    By default glibc raises that size as such arrays are freed, up to 32 MB, and keeps what is smaller: of the vectors
    over a million samples that a fit makes and drops, gaps would remain that take as much room again.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, or another habit
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the system while a file is read."""
    try:
        yield
    except OSError as error:
        code = exit_code_of_os_error(error, Exit.NO_INPUT)
        raise CommandError(f"{path} cannot be read: {_reason(error)}", code) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the system while a file is written."""
    try:
        yield
    except FileExistsError as error:
        raise CommandError(f"{path} is there already; --force replaces it", Exit.CANNOT_CREATE) from error
    except OSError as error:
        code = exit_code_of_os_error(error, Exit.CANNOT_CREATE)
        raise CommandError(f"{path} cannot be written: {_reason(error)}", code) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
