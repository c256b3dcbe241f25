"""Exceptions and warnings of levelprox, and the words of their messages.

Input errors are also `ValueError`s, so that code written for scikit-learn catches them. A run that stops early raises
no error: it returns its best feasible point with a `Status` and a `ConvergenceWarning`. Estimators warn with a subclass
of that category which is scikit-learn's `ConvergenceWarning`, too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from levelprox.result import Result


#: Packages whose frames a warning skips: it points at the caller's line.
_SKIPPED_PACKAGES = ("levelprox", "sklearn", "joblib", "contextlib")


@dataclass(frozen=True)
class Parameter:
    """A parameter that a hint names, rendered by each front end in its own words.

    Attributes
    ----------
    name : str
        As Python has it.
    value : object
        A value to give it; by default the hint only names the parameter.

    Examples
    --------
    >>> str(Parameter("drop", ["city"])), str(Parameter("impute"))
    ("drop=['city']", 'impute')
    """

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return self.name if self.value is ... else f"{self.name}={self.value!r}"


@dataclass(frozen=True)
class Hint:
    """What can be done about an error: text, and the parameters that it names.

    Attributes
    ----------
    parts : tuple of str or Parameter

    Examples
    --------
    >>> hint = Hint(("; leave it out (", Parameter("drop", ["city"]), ")"))
    >>> str(hint)
    "; leave it out (drop=['city'])"
    >>> hint.render(lambda parameter: f"--{parameter.name}")
    '; leave it out (--drop)'
    """

    parts: tuple[str | Parameter, ...]

    def render(self, parameter: Callable[[Parameter], str]) -> str:
        """Return the text, with the parameters in the words of a front end."""
        return "".join(part if isinstance(part, str) else parameter(part) for part in self.parts)

    def __str__(self) -> str:
        return self.render(str)


class LevelproxError(Exception):
    """Base class of the exceptions that levelprox raises.

    Attributes
    ----------
    hint : Hint or None
        What can be done about it. It ends the message, where Python's names stand for the parameters; other front ends
        take `render`.
    """

    hint: Hint | None = None

    def render(self, parameter: Callable[[Parameter], str]) -> str:
        """Return the message, with the parameters of the hint in the words of a front end."""
        message = super().__str__()
        return message if self.hint is None else message + self.hint.render(parameter)

    def prefixed(self, prefix: str) -> Self:
        """Return the same error, its message with something in front."""
        other = type(self)(prefix + super().__str__())
        other.__dict__.update(self.__dict__)
        return other

    def __str__(self) -> str:
        return self.render(str)


class InvalidInputError(LevelproxError, ValueError):
    """An argument or the data cannot be used; the message names the argument, the place and the value.

    Parameters
    ----------
    message : str
    hint : Hint, optional
        What can be done about it.
    """

    def __init__(self, message: str = "", hint: Hint | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class InfeasibleError(InvalidInputError):
    """No point obeys the level, or the given start does not."""


class FileFormatError(InvalidInputError):
    """A file is not what it should be; the message says which file, and where in it."""


class CheckpointError(LevelproxError):
    """A checkpoint cannot be written, read, or continued from; the message names the file and the difference."""


class CheckpointLockedError(CheckpointError):
    """Another run keeps its state in this file now."""


class NumericalError(LevelproxError, ArithmeticError):
    """The objective returned something that is not finite, or failed.

    Attributes
    ----------
    result : Result or None
        What the run had reached: `result.x` is the last good, feasible point.
    """

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class BackendError(LevelproxError, RuntimeError):
    """Workers, a scheduler or a device do not answer any more, or a file changes while it is used.

    Attributes
    ----------
    result : Result or None
        What the run had reached: `result.x` is the last good, feasible point.
    """

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class ConvergenceWarning(UserWarning):
    """A run ended before it reached its tolerance, or its problem has no solution.

    The returned point is feasible; `status` and `message` of the result say why the run ended.
    """


class CheckpointWarning(UserWarning):
    """The state of a run could not be written, or only an earlier state could be read."""


_convergence_category: ContextVar[type[ConvergenceWarning]] = ContextVar(
    "convergence_category", default=ConvergenceWarning
)


@contextmanager
def convergence_warnings_as(category: type[ConvergenceWarning]) -> Iterator[None]:
    """Let `warn` use this category by default, in the current thread; also a decorator.

    Parameters
    ----------
    category : type
        A subclass of `ConvergenceWarning`.
    """
    token = _convergence_category.set(category)
    try:
        yield
    finally:
        _convergence_category.reset(token)


def warn(message: str, category: type[Warning] | None = None) -> None:
    """Warn at the caller's line, outside levelprox and outside scikit-learn, which calls methods of estimators.

    Parameters
    ----------
    message : str
    category : type, optional
        By default `ConvergenceWarning`, or the category of `convergence_warnings_as`.
    """
    category = _convergence_category.get() if category is None else category
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _SKIPPED_PACKAGES:
        depth, frame = depth + 1, frame.f_back
    try:
        warnings.warn(message, category, stacklevel=depth)
    except ValueError:  # a standard error that is closed, where warnings expect a file or none
        if not getattr(sys.stderr, "closed", False):
            raise


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return "1 feature", "2 features" for a message; `plural` is for nouns that take no s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
