"""What levelprox raises, and the one warning it gives.

Input errors are `ValueError`s too, so that code written for scikit-learn catches them. A run that
merely stops early is no error: it returns its best feasible point with a `Status` and a
`ConvergenceWarning`.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from levelprox.result import Result


# Frames between what warns and who asked.
_BETWEEN = ("levelprox", "sklearn", "joblib", "contextlib")


class LevelproxError(Exception):
    """Base of everything levelprox raises on purpose."""


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


class CheckpointWarning(UserWarning):
    """The state of a run could not be kept, or only an earlier one was there."""


def warn(message: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn, on the line outside levelprox that asked for the run, and outside scikit-learn, which calls its methods."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _BETWEEN:
        depth, frame = depth + 1, frame.f_back
    try:
        warnings.warn(message, category, stacklevel=depth)
    except ValueError:  # a standard error that is closed, where warnings expect a file or none
        if not getattr(sys.stderr, "closed", False):
            raise
