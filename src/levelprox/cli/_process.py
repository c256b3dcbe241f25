"""The process of a command: exit codes and errors, standard streams, signals, threads and memory."""

from __future__ import annotations

import codecs
import ctypes
import errno
import io
import os
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
from typing import Any

from levelprox import exceptions as errors
from levelprox.exceptions import Parameter


class Exit(IntEnum):
    """Exit codes. Append-only: the meaning of a code never changes. Codes from 64 on follow sysexits.h."""

    OK = 0
    USAGE = 2  #: invalid options
    INACCURATE = 3  #: a model that is not accurate to the tolerance
    FAILED = 4  #: a numerical failure, a diverging fit, or a certificate that does not hold
    DATA = 65  #: invalid data, or a file of another format
    NO_INPUT = 66  #: an input file does not exist or cannot be read
    BUG = 70  #: an error in levelprox itself; the traceback is written to a file
    CANNOT_CREATE = 73  #: an output file cannot be created, or already exists
    IO = 74  #: reading or writing failed: disk or memory is full
    TRY_AGAIN = (
        75  #: another process holds the checkpoint, a cluster does not answer, or a file changed while it was read
    )
    INTERRUPTED = 130  #: Ctrl-C
    CLOSED = 141  #: closed pipe
    TERMINATED = 143  #: SIGTERM


class CommandError(Exception):
    """An error that ends a command, reported in one line.

    Parameters
    ----------
    message : str
    code : Exit
    """

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """Invalid options."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


#: Errors that occur while a file is written, not when it is opened.
_WHILE_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

#: Statuses with a usable model that is not accurate to tolerance: inaccurate, max_iter, time_limit, stalled.
_INACCURATE_STATUSES = (1, 2, 3, 6)
_OF_STATUS = {0: Exit.OK, 5: Exit.OK, 4: Exit.INTERRUPTED, 10: Exit.DATA, 13: Exit.IO}


def exit_code_of_status(status: int, accept_inaccurate: bool = False) -> Exit:
    """Return the exit code of a fit that ended with this `Status`."""
    if status in _INACCURATE_STATUSES:
        return Exit.OK if accept_inaccurate else Exit.INACCURATE
    return _OF_STATUS.get(int(status), Exit.FAILED)


def exit_code_of_error(error: BaseException) -> Exit:
    """Return the exit code of an error; `Exit.BUG` for unexpected ones."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, MemoryError):
        return Exit.IO
    if isinstance(error, ImportError):
        return Exit.USAGE if "pip install" in str(error) else Exit.BUG
    if isinstance(error, errors.CheckpointLockedError | errors.BackendError):
        return Exit.TRY_AGAIN
    if isinstance(error, errors.CheckpointError):
        cause = error.__cause__
        return exit_code_of_os_error(cause, Exit.CANNOT_CREATE) if isinstance(cause, OSError) else Exit.DATA
    if isinstance(error, errors.InvalidInputError):
        return Exit.DATA
    return Exit.FAILED if isinstance(error, errors.NumericalError) else Exit.BUG


def exit_code_of_os_error(error: OSError, otherwise: Exit) -> Exit:
    """Return `Exit.IO` for an error while reading or writing, else the given code."""
    return Exit.IO if error.errno in _WHILE_WRITING else otherwise


#: Replacements for encodings without these characters.
_IN_ASCII = {"ψ": "psi", "η": "eta", "φ": "phi", "γ": "gamma", "≤": "<=", "≥": ">=", "·": "*", "×": "x", "−": "-"}
_IN_ASCII |= {"…": "...", "—": "-", "–": "-", "’": "'", "→": "->", "²": "^2", "Σ": "sum", "∞": "inf"}
_HANDLER = "levelprox"
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)

#: Parameters of Python that messages of fits name.
_PARAMETERS = {"n_features", "sample_weight", "tol", "max_iter", "time_limit", "feature_weight", "feature_cost"}
_PARAMETERS |= {"class_weight", "one_standard_error"}
#: The same, for parameters whose names are also words: only with a value.
_PARAMETERS_WITH_VALUE = {"zero_based", "standardize", "resume", "criterion", "ridge", "loss", "level", "multi_class"}
#: Options with another name than the parameter.
_RENAMED = {"n_features": "features", "sample_weight": "weight"}


def in_shell_words(text: str) -> str:
    """Return a message with parameters of Python replaced by options of the command line.

    >>> in_shell_words("raise max_iter, or choose by criterion='cv'")
    'raise --max-iter, or choose by --criterion cv'
    """
    before, found, after = text.partition(" (cv_results_[")
    text = before + after.partition("])")[2] if found else text
    before, found, after = text.partition("resume=")
    if found and after.startswith(("'", '"')):  # a path, which may have blanks
        text = f"{before}resume=True{after[1:].partition(after[0])[2]}"
    return " ".join(map(_word_in_shell, text.split(" ")))


def _word_in_shell(word: str) -> str:
    parameter = word.strip("().,;:")
    name, equals, value = parameter.partition("=")
    if name not in _PARAMETERS and not (equals and name in _PARAMETERS_WITH_VALUE):
        return word
    if equals and not value.startswith(("True", "False", "'", '"', *"0123456789")):
        return word
    given = {"": ..., "True": True, "False": False}.get(value, value.strip("'\""))
    return word.replace(parameter, as_option(Parameter(name, given)), 1)


def prepare() -> None:
    """Make the standard streams replace characters that their encoding does not have."""
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
    """Return the text with control characters and undecodable bytes escaped."""
    return "".join(one if one.isprintable() else _escaped(one) for one in str(text))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def is_number(text: str) -> bool:
    """Return whether Python reads the text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def print_notice(text: str) -> None:
    """Print a line on standard error."""
    with suppress(BrokenPipeError, ValueError):  # a closed pipe, or no standard error
        print(printable(text), file=sys.stderr, flush=True)


def print_error(text: object) -> None:
    """Print an error in one line."""
    print_notice(f"levelprox: error: {in_shell_words(' '.join(str(text).split(chr(10))))}")


def message_of(error: BaseException) -> str:
    """Return the message of an error, its hint in the options of the command line."""
    message = error.render(as_option) if isinstance(error, errors.LevelproxError) else str(error)
    return message or type(error).__name__


def as_option(parameter: Parameter) -> str:
    """Return a parameter as an option of the command line, with its value."""
    option = _RENAMED.get(parameter.name, parameter.name).replace("_", "-")
    value = parameter.value
    if value is ... or isinstance(value, bool):
        return f"--no-{option}" if value is False else f"--{option}"
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"--{option} {shlex.quote(str(one))}" for one in values)


@contextmanager
def printed_warnings(quiet: bool) -> Iterator[list[str]]:
    """Print each different warning once, in one line, and collect them; warnings about code are ignored."""
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
    """Redirect standard output to the null device, so that the final flush of Python does not fail again."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


@dataclass
class SignalState:
    """Whether SIGTERM was received."""

    terminated: bool = False

    def exit_code(self, code: int) -> int:
        """Return the exit code; that of an interrupt depends on the signal."""
        return Exit.TERMINATED if self.terminated and code == Exit.INTERRUPTED else code


@contextmanager
def sigterm_as_interrupt() -> Iterator[SignalState]:
    """Raise KeyboardInterrupt on SIGTERM, so that a fit returns its best model; restore the handler on exit."""
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
    """Limit the threads of levelprox, BLAS and the table reader; None sets no limit."""
    if threads is None:
        yield
        return
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    from threadpoolctl import threadpool_limits

    import levelprox._kernels  # noqa: F401  # threadpoolctl limits only libraries that are loaded

    with threadpool_limits(threads):
        yield


_M_MMAP_THRESHOLD = -3  # parameter of glibc's mallopt
_LARGE_ARRAY_BYTES = 2**21


def return_large_arrays() -> None:
    """Make the allocator return arrays above 2 MB to the system when they are freed.

    By default glibc raises this threshold up to 32 MB as such arrays are freed and keeps smaller ones. The vectors over
    a million samples that a fit allocates and frees would then leave gaps of the same total size.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # a function of glibc
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_ARRAY_BYTES)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the system while a file is read into CommandError."""
    try:
        yield
    except OSError as error:
        code = exit_code_of_os_error(error, Exit.NO_INPUT)
        raise CommandError(f"{path} cannot be read: {_reason(error)}", code) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the system while a file is written into CommandError."""
    try:
        yield
    except FileExistsError as error:
        raise CommandError(f"{path} already exists; --force replaces it", Exit.CANNOT_CREATE) from error
    except OSError as error:
        code = exit_code_of_os_error(error, Exit.CANNOT_CREATE)
        raise CommandError(f"{path} cannot be written: {_reason(error)}", code) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
