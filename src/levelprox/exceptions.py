"""Exceptions and warnings of levelprox.

Input errors are also `ValueError`s, so that code written for scikit-learn catches them. A run that stops early raises
no error: it returns its best feasible point with a `Status` and a `ConvergenceWarning`. Estimators warn with a subclass
of that category which is scikit-learn's `ConvergenceWarning`, too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelprox.result import Result


#: Packages whose frames a warning skips: it points at the caller's line.
_SKIPPED_PACKAGES = ("levelprox", "sklearn", "joblib", "contextlib")


class LevelproxError(Exception):
    """Base class of the exceptions that levelprox raises."""


class InvalidInputError(LevelproxError, ValueError):
    """An argument or the data cannot be used; the message names the argument, the place and the value."""


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
