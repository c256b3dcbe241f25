"""What is said on standard output and standard error: one line an error, nothing that a terminal would obey."""

from __future__ import annotations

import codecs
import io
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelprox.exceptions import Parameter

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


def say(text: str) -> None:
    """A line on standard error."""
    with suppress(BrokenPipeError, ValueError):  # nobody listens, or there is no standard error
        print(printable(text), file=sys.stderr, flush=True)


def say_error(text: object) -> None:
    """An error, in one line."""
    say(f"levelprox: error: {in_shell_words(' '.join(str(text).split(chr(10))))}")


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
def warnings_in_lines(quiet: bool) -> Iterator[list[str]]:
    """Show warnings as lines, each text once, and keep them; those about code, not data, are not for users."""
    seen: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = in_shell_words(" ".join(str(message).split()))
        if text not in seen:
            seen.append(text)
            if not quiet:
                say(f"levelprox: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for about_code in _ABOUT_CODE:
            warnings.simplefilter("ignore", about_code)
        warnings.showwarning = show
        yield seen


def let_go_of_stdout() -> None:
    """Let Python's own last flush go nowhere, after a flush has failed."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
